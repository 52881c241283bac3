package admissionproxy

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	metricName   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
	metricSuffix = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// joinedMetrics answers /metrics with the families of the proxy, and with those of the API server that the proxy does not have.
// Families of admission are in both; the proxy's are the ones that count the requests of the test.
type joinedMetrics struct {
	next  http.RoundTripper
	proxy string // URL of the proxy's metrics
}

func (m *joinedMetrics) WrappedRoundTripper() http.RoundTripper { return m.next }

func (m *joinedMetrics) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet || request.URL.Path != "/metrics" || response.StatusCode != http.StatusOK ||
		!strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
		return response, err
	}
	upstream, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	_, proxy := fetch(m.proxy)
	response.Body = io.NopCloser(bytes.NewReader(join(proxy, string(upstream))))
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

func join(first, second string) []byte {
	families := sets.New[string]()
	var joined bytes.Buffer
	for line := range strings.Lines(first) {
		families.Insert(family(line))
		joined.WriteString(line)
	}
	for line := range strings.Lines(second) {
		if !families.Has(family(line)) {
			joined.WriteString(line)
		}
	}
	return joined.Bytes()
}

// family is the name of the metric family that the line of text exposition is about.
func family(line string) string {
	if words := strings.Fields(line); len(words) > 2 && words[0] == "#" {
		return words[2]
	}
	return metricSuffix.ReplaceAllString(metricName.FindString(line), "")
}
