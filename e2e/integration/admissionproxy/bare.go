package admissionproxy

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
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

// enableOnly makes the proxy run the plugin that the test put into its server, or the plugins if it is a chain, and no others. The Go
// package of a plugin has the plugin's name in lower case.
func (s *Session) enableOnly(test admission.Interface) {
	plugins := []any{test}
	if chain := reflect.ValueOf(test); chain.Kind() == reflect.Slice {
		plugins = nil
		for i := range chain.Len() {
			plugins = append(plugins, chain.Index(i).Interface())
		}
	}
	var enable, disable []string
	for _, name := range s.options.Admission.GenericAdmission.RecommendedPluginOrder {
		if slices.ContainsFunc(plugins, func(plugin any) bool { return strings.EqualFold(name, packageOf(plugin)) }) {
			enable = append(enable, name)
		} else {
			disable = append(disable, name)
		}
	}
	s.test.Logf("admissionproxy: the only plugins are %v", enable)
	s.flags = slices.DeleteFunc(s.flags, func(flag string) bool { return strings.Contains(flag, "able-admission-plugins=") })
	s.flagIf("enable-admission-plugins", strings.Join(enable, ","))
	s.flagIf("disable-admission-plugins", strings.Join(disable, ","))
}

func packageOf(value any) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", value), "*"), ".")
	return name
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
