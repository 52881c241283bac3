// Writes src/x509/recorded.jsonl: chains of certificates, and the answers of a kube-apiserver to clients that present them.
//
//	go run . FOLDER > ../../src/x509/recorded.jsonl
//
// FOLDER has kube-apiserver and etcd. The tool makes new keys and certificates each time, which are valid from 2000 to 2100, and starts one
// kube-apiserver, which trusts the bundles of all cases together: no two cases have an authority of the same name.
//
// A line is a certificate with its name, or a case: the names of the certificates in its bundle and in the client's chain, leaf first; the
// client's key, if it is short; and the answer. The code 0 is a handshake that the server refuses.

//go:debug rsa1024min=0
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

type answer struct {
	Code   int      `json:"code"`
	User   string   `json:"user,omitempty"`
	UID    string   `json:"uid,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

type line struct {
	Certificate string   `json:"certificate,omitempty"`
	DER         []byte   `json:"der,omitempty"`
	Case        string   `json:"case,omitempty"`
	Bundle      []string `json:"bundle,omitempty"`
	Chain       []string `json:"chain,omitempty"`
	Key         []byte   `json:"key,omitempty"`
	*answer
}

func check[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	cases := cases()
	folder := check(os.MkdirTemp("", "certificate-chains"))
	defer os.RemoveAll(folder)
	server := start(os.Args[1], folder, cases)
	defer server.stop()
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	names := map[string]string{}
	name := func(of *testCase, number int, certificate []byte) string {
		if known, ok := names[string(certificate)]; ok {
			return known
		}
		name := fmt.Sprintf("%s/%d", of.name, number)
		names[string(certificate)] = name
		must(out.Encode(line{Certificate: name, DER: certificate}))
		return name
	}
	for _, each := range cases {
		made := line{Case: each.name}
		for _, certificate := range each.bundle {
			made.Bundle = append(made.Bundle, name(each, len(names), certificate))
		}
		for _, certificate := range each.chain {
			made.Chain = append(made.Chain, name(each, len(names), certificate))
		}
		if key := check(x509.MarshalPKCS8PrivateKey(each.key)); len(key) < 2000 {
			made.Key = key
		}
		made.answer = server.ask(each)
		must(out.Encode(made))
	}
}

type server struct {
	address   string
	processes []*exec.Cmd
}

func port() int {
	listener := check(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func start(assets, folder string, cases []*testCase) *server {
	made := &server{address: fmt.Sprintf("127.0.0.1:%d", port())}
	var bundle bytes.Buffer
	for _, each := range cases {
		for _, certificate := range each.bundle {
			must(pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
		}
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	must(os.WriteFile(path("bundle.crt"), bundle.Bytes(), 0o600))
	key := newKey("P256")
	write := func(name, kind string, der []byte) {
		must(os.WriteFile(path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	write("accounts.key", "PRIVATE KEY", check(x509.MarshalPKCS8PrivateKey(key)))
	write("accounts.pub", "PUBLIC KEY", check(x509.MarshalPKIXPublicKey(key.Public())))
	run := func(name string, args ...string) {
		command := exec.Command(filepath.Join(assets, name), args...)
		log := check(os.Create(path(name + ".log")))
		command.Stdout, command.Stderr = log, log
		must(command.Start())
		made.processes = append(made.processes, command)
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", port()), fmt.Sprintf("http://127.0.0.1:%d", port())
	run("etcd", "--data-dir="+path("etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	run("kube-apiserver", "--etcd-servers="+client, "--bind-address=127.0.0.1",
		"--secure-port="+strings.Split(made.address, ":")[1], "--cert-dir="+path("serving"),
		"--client-ca-file="+path("bundle.crt"), "--anonymous-auth=false", "--authorization-mode=AlwaysAllow",
		"--service-account-issuer=https://test", "--service-account-key-file="+path("accounts.pub"),
		"--service-account-signing-key-file="+path("accounts.key"), "--service-cluster-ip-range=10.0.0.0/24")
	first := cases[0]
	for end := time.Now().Add(2 * time.Minute); made.ask(first).Code != http.StatusCreated; time.Sleep(time.Second) {
		if time.Now().After(end) {
			log := check(os.ReadFile(path("kube-apiserver.log")))
			made.stop()
			panic("kube-apiserver does not answer: " + string(log[max(0, len(log)-4000):]))
		}
	}
	return made
}

func (s *server) stop() {
	for index := len(s.processes) - 1; index >= 0; index-- {
		_ = s.processes[index].Process.Kill()
		_ = s.processes[index].Wait()
	}
}

// Asks who the user is, on a new connection.
func (s *server) ask(of *testCase) *answer {
	certificate := &tls.Certificate{Certificate: of.chain, PrivateKey: of.key}
	sent := false
	config := &tls.Config{
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			sent = true
			return certificate, nil
		},
		MaxVersion: of.version,
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	context, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	url := "https://" + s.address + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	request := check(http.NewRequestWithContext(context, http.MethodPost, url, strings.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		if sent {
			fmt.Fprintf(os.Stderr, "%s: %v\n", of.name, err)
		}
		return &answer{}
	}
	defer response.Body.Close()
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				UID      string
				Groups   []string
			}
		}
	}
	text := check(io.ReadAll(response.Body))
	made := &answer{Code: response.StatusCode}
	if response.StatusCode == http.StatusCreated {
		must(json.Unmarshal(text, &review))
		made.User, made.UID, made.Groups = review.Status.UserInfo.Username, review.Status.UserInfo.UID, review.Status.UserInfo.Groups
	}
	return made
}
