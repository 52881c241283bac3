package admissionproxy

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	baseversion "k8s.io/component-base/version"

	_ "k8s.io/kubernetes/pkg/features" // registers the gates before defaultGates is computed
)

// The gates' values before any test changes them.
var defaultGates = func() map[featuregate.Feature]bool {
	values := map[featuregate.Feature]bool{}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	for gate := range gates.GetAll() {
		values[gate] = gates.Enabled(gate)
	}
	return values
}()

func (s *Session) flag(name, value string) {
	s.flags = append(s.flags, "--"+name+"="+value)
}

// flagIf adds the flag if it has a value.
func (s *Session) flagIf(name, value string) {
	if value != "" {
		s.flag(name, value)
	}
}

func (s *Session) takeAdmission(flags []string) {
	admission := s.options.Admission
	generic := admission.GenericAdmission
	enable, disable := generic.EnablePlugins, generic.DisablePlugins
	if admission.PluginNames != nil {
		enable = admission.PluginNames
		disable = sets.List(sets.New(generic.RecommendedPluginOrder...).Difference(sets.New(enable...)))
		admission.PluginNames = nil
	}
	s.flagIf("enable-admission-plugins", strings.Join(enable, ","))
	s.flagIf("disable-admission-plugins", strings.Join(disable, ","))
	s.flagIf("admission-control-config-file", generic.ConfigFile)
	generic.EnablePlugins, generic.ConfigFile = nil, ""
	generic.DisablePlugins = append([]string{}, generic.RecommendedPluginOrder...)
	for _, flag := range flags {
		// The plugin has variables for these, which the options do not hold.
		if strings.HasPrefix(flag, "--default-not-ready-toleration-seconds=") ||
			strings.HasPrefix(flag, "--default-unreachable-toleration-seconds=") {
			s.flags = append(s.flags, flag)
		}
	}
}

func (s *Session) takeAudit() {
	audit := s.options.Audit
	if audit == nil || audit.LogOptions.Path == "" {
		return
	}
	s.auditLog = audit.LogOptions.Path
	s.flag("audit-log-path", audit.LogOptions.Path)
	s.flagIf("audit-policy-file", audit.PolicyFile)
	audit.LogOptions.Path, audit.PolicyFile = "", ""
}

func (s *Session) addServingFlags() {
	o := s.options
	s.flag("upstream-identity", "impersonate")
	s.flag("upstream-calls-webhooks", "no")
	s.flag("bind-address", "127.0.0.1")
	s.flag("secure-port", "0")
	s.flag("health-bind-address", "127.0.0.1:0")
	s.flag("shutdown-drain-timeout", "1s")
	s.flag("tls-cert-file", o.SecureServing.ServerCert.CertKey.CertFile)
	s.flag("tls-private-key-file", o.SecureServing.ServerCert.CertKey.KeyFile)
	for _, named := range o.SecureServing.SNICertKeys {
		value := named.CertFile + "," + named.KeyFile
		if len(named.Names) > 0 {
			value += ":" + strings.Join(named.Names, ",")
		}
		s.flag("tls-sni-cert-key", value)
	}
	s.flagIf("tls-min-version", o.SecureServing.MinTLSVersion)
	s.flagIf("tls-cipher-suites", strings.Join(o.SecureServing.CipherSuites, ","))
	s.flag("request-timeout", o.GenericServerRunOptions.RequestTimeout.String())
	if !o.Features.EnablePriorityAndFairness {
		// With priority and fairness these are the seats for which the API server has queues. The proxy has no queues.
		s.flag("max-requests-inflight", fmt.Sprint(o.GenericServerRunOptions.MaxRequestsInFlight))
		s.flag("max-mutating-requests-inflight", fmt.Sprint(o.GenericServerRunOptions.MaxMutatingRequestsInFlight))
	}
	s.flag("enable-aggregator-routing", fmt.Sprint(o.EnableAggregatorRouting))
	s.flagIf("feature-gates", s.featureGates())
}

func (s *Session) addAuthenticationFlags() {
	authentication := s.options.Authentication
	if authentication.ClientCert != nil {
		s.flagIf("client-ca-file", authentication.ClientCert.ClientCA)
	}
	if front := authentication.RequestHeader; front != nil && front.ClientCAFile != "" {
		s.flag("requestheader-client-ca-file", front.ClientCAFile)
		s.flagIf("requestheader-allowed-names", strings.Join(front.AllowedNames, ","))
		s.flagIf("requestheader-username-headers", strings.Join(front.UsernameHeaders, ","))
		s.flagIf("requestheader-uid-headers", strings.Join(front.UIDHeaders, ","))
		s.flagIf("requestheader-group-headers", strings.Join(front.GroupHeaders, ","))
		s.flagIf("requestheader-extra-headers-prefix", strings.Join(front.ExtraHeaderPrefixes, ","))
	}
	s.flag("anonymous-auth", fmt.Sprint(authentication.Anonymous != nil && authentication.Anonymous.Allow))
}

// featureGates returns the gates that the test changed. A gate that the proxy does not know, or whose value is locked, is logged.
func (s *Session) featureGates() string {
	text, err := os.ReadFile(os.Getenv("ADMISSION_PROXY_FEATURE_GATES"))
	if err != nil {
		panic(err)
	}
	settable := sets.New[string]()
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 0 && isSettable(words[1:]) {
			settable.Insert(words[0])
		}
	}
	var changed []string
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		value := utilfeature.DefaultFeatureGate.Enabled(gate)
		if before, known := defaultGates[gate]; known && before == value || gate == "AllAlpha" || gate == "AllBeta" {
			continue
		}
		setting := fmt.Sprintf("%s=%t", gate, value)
		if settable.Has(string(gate)) {
			changed = append(changed, setting)
		} else {
			s.test.Logf("admissionproxy: the proxy has no feature gate for %s", setting)
		}
	}
	sort.Strings(changed)
	return strings.Join(changed, ",")
}

// isSettable reads a line of the proxy's list, as 36:true/Beta 37:true/GA/locked 38:-, for the release of the API server.
func isSettable(words []string) bool {
	release := version.MustParse(baseversion.DefaultKubeBinaryVersion).Minor()
	facts := "-"
	for _, word := range words {
		since, has, ok := strings.Cut(word, ":")
		since, _, _ = strings.Cut(since, "@")
		if minor, err := strconv.ParseUint(since, 10, 32); ok && err == nil && uint(minor) <= release {
			facts = has
		}
	}
	return facts != "-" && !strings.HasSuffix(facts, "/locked")
}
