package admissionproxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
)

var proxyUser = &user.DefaultInfo{Name: "kube-admission-proxy", UID: "kube-admission-proxy",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// PrepareBare changes the configuration of a server that has only built-in resources, and may have an authenticator, an authorizer or
// an admission plugin of the test's own: the proxy gets a token that the server accepts for every request, and the server gets empty
// lists of CustomResourceDefinitions and APIServices.
func (s *Session) PrepareBare(config *server.Config, admissionBefore admission.Interface) {
	if s == nil {
		return
	}
	if config.AdmissionControl != admissionBefore {
		s.enableOnly(config.AdmissionControl)
		config.AdmissionControl = admissionBefore
	}
	s.upstreamToken = uuid.New().String()
	if config.Authentication.Authenticator != nil {
		config.Authentication.Authenticator = s.acceptProxy(config.Authentication.Authenticator, config.Authentication.APIAudiences)
	}
	config.Authorization.Authorizer = allowProxy{config.Authorization.Authorizer}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(handler http.Handler, c *server.Config) http.Handler {
		return s.withEmptyLists(build(handler, c))
	}
}

// enableOnly makes the proxy run the plugin that the test put into its server, and no other. A plugin's Go package has the plugin's
// name in lower case.
func (s *Session) enableOnly(plugin admission.Interface) {
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", plugin), "*"), ".")
	var others []string
	for _, other := range s.options.Admission.GenericAdmission.RecommendedPluginOrder {
		if !strings.EqualFold(other, name) {
			others = append(others, other)
		}
	}
	s.test.Logf("admissionproxy: all plugins but %s are off", name)
	s.flag("disable-admission-plugins", strings.Join(others, ","))
}

func (s *Session) isProxy(request *http.Request) bool {
	return request.Header.Get("Authorization") == "Bearer "+s.upstreamToken
}

func (s *Session) acceptProxy(others authenticator.Request, audiences authenticator.Audiences) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		if s.isProxy(request) {
			return &authenticator.Response{User: proxyUser, Audiences: audiences}, true, nil
		}
		response, ok, err := others.AuthenticateRequest(request)
		if ok && response != nil && len(response.Audiences) == 0 {
			// The proxy authenticates by TokenReview, which rejects a token without audiences. Authenticators of tests set none.
			requested, _ := authenticator.AudiencesFrom(request.Context())
			response = &authenticator.Response{User: response.User, Audiences: requested}
		}
		return response, ok, err
	})
}

// allowProxy allows all requests of the proxy itself.
type allowProxy struct{ authorizer.Authorizer }

func (a allowProxy) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := attributes.GetUser(); u != nil && u.GetName() == proxyUser.Name && u.GetUID() == proxyUser.UID {
		return authorizer.DecisionAllow, "", nil
	}
	return a.Authorizer.Authorize(ctx, attributes)
}

// withEmptyLists answers the proxy's lists and watches of the kinds that a bare server does not have.
func (s *Session) withEmptyLists(next http.Handler) http.Handler {
	missing := map[string][2]string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
		"/apis/apiregistration.k8s.io/v1/apiservices":             {"apiregistration.k8s.io/v1", "APIService"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		kind, ok := missing[request.URL.Path]
		if !ok || request.Method != http.MethodGet || !s.isProxy(request) {
			next.ServeHTTP(w, request)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		query := request.URL.Query()
		if watch := query.Get("watch"); watch == "" || watch == "false" {
			_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"%sList","metadata":{"resourceVersion":"1"},"items":[]}`, kind[0], kind[1])
			return
		}
		if query.Get("sendInitialEvents") == "true" {
			_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1",`+
				`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind[0], kind[1])
		}
		w.(http.Flusher).Flush()
		select {
		case <-request.Context().Done():
		case <-time.After(5 * time.Minute):
		}
	})
}
