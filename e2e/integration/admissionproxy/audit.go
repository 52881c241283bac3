package admissionproxy

import (
	"bytes"
	"net/http"
	"os"
	"time"
)

const auditTimeout = 300 * time.Millisecond

// audited returns the answer to a request when its event is in the audit log. kube-apiserver writes the event before the answer ends, and
// tests read the log at once; a thread of its own writes the proxy's. An event that the policy omits delays the answer by auditTimeout.
type audited struct {
	next http.RoundTripper
	log  string
}

func (a *audited) WrappedRoundTripper() http.RoundTripper { return a.next }

func (a *audited) RoundTrip(request *http.Request) (*http.Response, error) {
	size := int64(0)
	if file, err := os.Stat(a.log); err == nil {
		size = file.Size()
	}
	response, err := a.next.RoundTrip(request)
	if err != nil || request.URL.Query().Has("watch") || response.Header.Get("Audit-Id") == "" {
		return response, err
	}
	id := []byte(`"auditID":"` + response.Header.Get("Audit-Id") + `"`)
	for deadline := time.Now().Add(auditTimeout); time.Now().Before(deadline) && !a.isComplete(id, size); {
		time.Sleep(2 * time.Millisecond)
	}
	return response, nil
}

// isComplete says whether the log has the event of the completed response, from this offset on. A test may have truncated it.
func (a *audited) isComplete(id []byte, offset int64) bool {
	text, _ := os.ReadFile(a.log)
	if int64(len(text)) >= offset {
		text = text[offset:]
	}
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, id) && bytes.Contains(line, []byte(`"stage":"ResponseComplete"`)) {
			return true
		}
	}
	return false
}
