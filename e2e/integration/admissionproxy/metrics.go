package admissionproxy

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	metricName   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
	metricSuffix = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// joinedMetrics answers /metrics with the families of the proxy, and with those of the API server that the proxy does not have.
// Families of admission are in both; the proxy's are the ones that count the requests of the test. After a DELETE of /metrics, which
// resets the API server's metrics, the proxy's counters are what they gained since.
type joinedMetrics struct {
	next  http.RoundTripper
	proxy string // URL of the proxy's metrics

	lock  sync.Mutex
	reset map[string]float64 // series of counters and histograms, with their values at the reset
}

func (m *joinedMetrics) WrappedRoundTripper() http.RoundTripper { return m.next }

func (m *joinedMetrics) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(request)
	if err == nil && request.Method == http.MethodDelete && request.URL.Path == "/metrics" {
		_, proxy := fetch(m.proxy)
		m.lock.Lock()
		defer m.lock.Unlock()
		m.reset = counters(proxy)
		return response, nil
	}
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
	response.Body = io.NopCloser(bytes.NewReader(join(m.sinceReset(proxy), string(upstream))))
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

// sinceReset subtracts the values at the reset. A series that gained nothing is not there, as after the API server's reset.
func (m *joinedMetrics) sinceReset(text string) string {
	m.lock.Lock()
	defer m.lock.Unlock()
	var rest strings.Builder
	now := counters(text)
	for line := range strings.Lines(text) {
		series, _, _ := cutValue(line)
		before, known := m.reset[series]
		switch {
		case !known:
			rest.WriteString(line)
		case now[series] != before:
			rest.WriteString(series + " " + strconv.FormatFloat(now[series]-before, 'g', -1, 64) + "\n")
		}
	}
	return rest.String()
}

// counters returns the values of all series that only grow.
func counters(text string) map[string]float64 {
	values, growing := map[string]float64{}, sets.New[string]()
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 4 && words[1] == "TYPE" && (words[3] == "counter" || words[3] == "histogram") {
			growing.Insert(words[2])
		}
		if series, value, ok := cutValue(line); ok && (growing.Has(family(line)) || growing.Has(metricName.FindString(line))) {
			values[series] = value
		}
	}
	return values
}

// cutValue splits a line of text exposition into the series and its value.
func cutValue(line string) (series string, value float64, ok bool) {
	line = strings.TrimSpace(line)
	end := strings.LastIndexByte(line, ' ')
	if end < 0 || strings.HasPrefix(line, "#") {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[end+1:], 64)
	return line[:end], value, err == nil
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
