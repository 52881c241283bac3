// The webhooks that the bench calls. They read a review to its end and write the configured response: at once, or under /slow 10 ms after
// the request's head.
//
//	hook ADDRESS CERTIFICATE KEY ANSWER-OF-/validate ANSWER-OF-/mutate
package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	answer := func(response http.ResponseWriter, request *http.Request) {
		delay := time.After(0)
		if strings.HasPrefix(request.URL.Path, "/slow") {
			delay = time.After(10 * time.Millisecond)
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		<-delay
		body := os.Args[4]
		if strings.HasSuffix(request.URL.Path, "/mutate") {
			body = os.Args[5]
		}
		response.Header().Set("Content-Type", "application/json")
		io.WriteString(response, body)
	}
	server := http.Server{
		Addr:         os.Args[1],
		Handler:      http.HandlerFunc(answer),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
	}
	log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
}
