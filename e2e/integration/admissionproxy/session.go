// Package admissionproxy puts kube-admission-proxy in front of the API servers that Kubernetes' integration tests start in their own
// process: the API server runs without admission plugins, and the clients of the test get the address of the proxy.
//
// e2e/integration/run.py copies this folder to test/utils/admissionproxy of a copy of k8s.io/kubernetes, and adds the calls of Prepare,
// Serve and Stop to the four files that start servers. The environment configures it:
//
//	ADMISSION_PROXY_BINARY         the proxy; without it every function here does nothing
//	ADMISSION_PROXY_LOGS           a folder for the command line, the log and the audit log of every proxy
//	ADMISSION_PROXY_FEATURE_GATES  the proxy's list of feature gates, src/config/feature_gates.txt
//	ADMISSION_PROXY_ARGS           more flags for the proxy, separated by spaces
//	ADMISSION_PROXY_CLIENTS        json: the test's clients send JSON rather than protobuf; http1: they do not use HTTP/2
package admissionproxy

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	readyTimeout = time.Minute
	stopTimeout  = 3 * time.Second
)

var (
	sessions       atomic.Int64
	servingLine    = regexp.MustCompile(`serving on (?:https://)?(\S+), health and metrics on (http://\S+)`)
	terminalColour = regexp.MustCompile("\x1b\\[[0-9;]*m")
	notInFileNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// The name that a test gives its host with SetHostnameFuncForTests.
//
//go:linkname hostname k8s.io/apiserver/pkg/server.hostnameFunc
var hostname func() (string, error)

// Test is what the hook uses of a *testing.T.
type Test interface {
	Logf(format string, args ...any)
	Name() string
}

// Session is one proxy in front of one API server. All methods accept nil, which is the session of a run without a proxy.
type Session struct {
	test    Test
	binary  string
	folder  string
	options *options.ServerRunOptions
	flags   []string

	process *exec.Cmd
	ended   chan struct{}
	address string
	health  string

	upstreamToken string // of a server with an authenticator of the test's own
	auditLog      string
}

// Prepare moves the admission and the audit log of the API server's options into flags of the proxy. The options must have all of the
// test's changes, and must not be completed yet.
func Prepare(test any, o *options.ServerRunOptions, flags ...string) *Session {
	binary := os.Getenv("ADMISSION_PROXY_BINARY")
	if binary == "" {
		return nil
	}
	s := &Session{binary: binary, options: o}
	if s.test, _ = test.(Test); s.test == nil {
		s.test = unnamed{}
	}
	name := notInFileNames.ReplaceAllString(s.test.Name(), "_")
	name = name[:min(len(name), 100)]
	s.folder = filepath.Join(os.Getenv("ADMISSION_PROXY_LOGS"), fmt.Sprintf("%s-%d", name, sessions.Add(1)))
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		panic(err)
	}
	s.takeAdmission(flags)
	s.takeAudit()
	if err := s.ensureCertificate(); err != nil {
		panic(err)
	}
	return s
}

// RequestInformers requests the informer of namespaces, as admission plugins would. Without it the controller of the system namespaces
// requests it after all informers were started, and the namespace "default" is missing at times.
func (s *Session) RequestInformers(factory informers.SharedInformerFactory) {
	if s != nil {
		factory.Core().V1().Namespaces().Informer()
	}
}

// Serve starts the proxy in front of the API server of this configuration, which must have all rights, and sets the proxy's address in
// it. With wait, Serve returns when the proxy is ready.
func (s *Session) Serve(config *rest.Config, wait bool) error {
	if s == nil {
		return nil
	}
	authority := config.CAData
	if len(authority) == 0 && config.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			return err
		}
	}
	if err := s.writeKubeconfig(config, authority); err != nil {
		return err
	}
	if err := s.writeTokens(config.BearerToken); err != nil {
		return err
	}
	s.addServingFlags()
	s.addAuthenticationFlags()
	s.flags = append(s.flags, strings.Fields(os.Getenv("ADMISSION_PROXY_ARGS"))...)

	start := time.Now()
	if err := s.launch(); err != nil {
		return err
	}
	if err := s.waitUntilServing(wait); err != nil {
		s.Stop()
		return err
	}
	s.test.Logf("admissionproxy: %s is in front of %s after %s, its log is in %s",
		s.address, config.Host, time.Since(start).Round(time.Millisecond), s.folder)
	if s.auditLog != "" {
		_ = os.Link(s.auditLog, filepath.Join(s.folder, "audit.log")) // tests remove theirs
	}
	return s.redirect(config, authority)
}

// Stop ends the proxy.
func (s *Session) Stop() {
	if s == nil || s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	s.process = nil
}

func (s *Session) writeKubeconfig(config *rest.Config, authority []byte) error {
	server := config.Host
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	token := config.BearerToken
	if s.upstreamToken != "" {
		token = s.upstreamToken
	}
	kubeconfig := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "upstream",
"contexts": [{"name": "upstream", "context": {"cluster": "upstream", "user": "upstream"}}],
"clusters": [{"name": "upstream", "cluster": {"server": %q, "certificate-authority-data": %q, "tls-server-name": %q}}],
"users": [{"name": "upstream", "user": {"token": %q}}]}
`, server, base64.StdEncoding.EncodeToString(authority), config.ServerName, token)
	file := filepath.Join(s.folder, "upstream.kubeconfig")
	s.flag("upstream-kubeconfig", file)
	return os.WriteFile(file, []byte(kubeconfig), 0o600)
}

// writeTokens writes the tokens that the proxy knows: the loopback client's, whom kube-apiserver knows without a token file, and those
// of the test.
func (s *Session) writeTokens(loopback string) error {
	tokens := ""
	if loopback != "" {
		tokens = fmt.Sprintf("%s,system:apiserver,loopback,\"system:masters\"\n", loopback)
	}
	if file := s.options.Authentication.TokenFile; file != nil && file.TokenFile != "" {
		others, err := os.ReadFile(file.TokenFile)
		if err != nil {
			return err
		}
		tokens += string(others)
	}
	if tokens == "" {
		return nil
	}
	file := filepath.Join(s.folder, "tokens.csv")
	s.flag("token-auth-file", file)
	return os.WriteFile(file, []byte(tokens), 0o600)
}

func (s *Session) launch() error {
	output, err := os.Create(filepath.Join(s.folder, "proxy.log"))
	if err != nil {
		return err
	}
	defer output.Close()
	command := append([]string{s.binary, "serve"}, s.flags...)
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	own, _ := os.Hostname()
	if name, err := hostname(); err == nil && name != own {
		command = append([]string{"/bin/sh", "-c", `hostname "$0" && exec "$@"`, name}, command...)
		attributes.Cloneflags = syscall.CLONE_NEWUTS
	}
	s.process = exec.Command(command[0], command[1:]...)
	s.process.Stdout, s.process.Stderr = output, output
	s.process.SysProcAttr = attributes
	_ = os.WriteFile(filepath.Join(s.folder, "command"), []byte(strings.Join(s.process.Args, "\n")+"\n"), 0o600)
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.process.Wait()
	}()
	return nil
}

// waitUntilServing reads the addresses from the proxy's log, and waits for /readyz if ready is true.
func (s *Session) waitUntilServing(ready bool) error {
	deadline := time.Now().Add(readyTimeout)
	for {
		select {
		case <-s.ended:
			return fmt.Errorf("the proxy ended: %s", s.log())
		case <-time.After(20 * time.Millisecond):
		}
		if found := servingLine.FindStringSubmatch(s.log()); found != nil {
			s.address, s.health = found[1], strings.TrimSuffix(found[2], "/")
			if !ready {
				return nil
			}
			if code, _ := fetch(s.health + "/readyz"); code == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			_, state := fetch(s.health + "/readyz?verbose")
			return fmt.Errorf("the proxy is not ready after %s: %s\n%s", readyTimeout, state, s.log())
		}
	}
}

func (s *Session) log() string {
	text, _ := os.ReadFile(filepath.Join(s.folder, "proxy.log"))
	return terminalColour.ReplaceAllString(string(text), "")
}

// redirect makes the configuration that of a client of the proxy. Clients may trust either server: some tests build a configuration
// from this one that reaches the API server itself.
func (s *Session) redirect(config *rest.Config, authority []byte) error {
	config.Host = "https://" + s.address
	if config.CAFile == "" {
		own, err := os.ReadFile(s.options.SecureServing.ServerCert.CertKey.CertFile)
		if err != nil {
			return err
		}
		config.CAData = append(own, authority...)
	} else {
		config.CAData = nil // the file is the certificate of both
	}
	switch os.Getenv("ADMISSION_PROXY_CLIENTS") {
	case "json":
		config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	case "http1":
		config.NextProtos = []string{"http/1.1"}
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		next = &joinedMetrics{next: next, proxy: s.health + "/metrics"}
		if s.auditLog != "" {
			next = &audited{next: next, log: s.auditLog}
		}
		return next
	})
	return nil
}

// One pair of certificate and key for all servers of a process, as making one takes a second.
var servingPair = sync.OnceValues(func() ([2][]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1",
		[]net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("127.0.0.1"), net.ParseIP("::1")},
		[]string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost", "apiserver-loopback-client"})
	return [2][]byte{certificate, key}, err
})

// ensureCertificate writes a serving certificate where kube-apiserver would write one. The proxy has the same one, and it is valid for
// the server name of loopback clients too.
func (s *Session) ensureCertificate() error {
	serving := s.options.SecureServing.ServerCert
	if serving.CertKey.CertFile != "" || serving.CertDirectory == "" {
		return nil
	}
	pair, err := servingPair()
	if err != nil {
		return err
	}
	for i, extension := range []string{".crt", ".key"} {
		file := filepath.Join(serving.CertDirectory, serving.PairName+extension)
		if _, err := os.Stat(file); os.IsNotExist(err) {
			if err := os.WriteFile(file, pair[i], 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch returns code and body of a GET, or 0.
func fetch(url string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// unnamed stands for a test that is not known where the server is started.
type unnamed struct{}

func (unnamed) Logf(string, ...any) {}
func (unnamed) Name() string        { return "server" }
