package main

import (
	"encoding/json"
	"log"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	internal "k8s.io/kubernetes/pkg/apis/autoscaling"
)

// The kinds that a kube-apiserver can serve: group, version, kinds. Those that 1.37 added are the last ones, and each release has its own.
var kinds = parsed(`
"" v1 Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount PodLogOptions
admissionregistration.k8s.io v1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
admissionregistration.k8s.io v1beta1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io v1alpha1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
apiextensions.k8s.io v1 CustomResourceDefinition
apiregistration.k8s.io v1 APIService
apps v1 ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authentication.k8s.io v1 SelfSubjectReview TokenRequest TokenReview
authorization.k8s.io v1 LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
autoscaling v1 HorizontalPodAutoscaler Scale
autoscaling v2 HorizontalPodAutoscaler
batch v1 CronJob Job
certificates.k8s.io v1 CertificateSigningRequest
certificates.k8s.io v1beta1 ClusterTrustBundle PodCertificateRequest
certificates.k8s.io v1alpha1 ClusterTrustBundle
coordination.k8s.io v1 Lease
coordination.k8s.io v1beta1 LeaseCandidate
coordination.k8s.io v1alpha2 LeaseCandidate
discovery.k8s.io v1 EndpointSlice
events.k8s.io v1 Event
flowcontrol.apiserver.k8s.io v1 FlowSchema PriorityLevelConfiguration
internal.apiserver.k8s.io v1alpha1 StorageVersion
networking.k8s.io v1 IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
networking.k8s.io v1beta1 IPAddress ServiceCIDR
node.k8s.io v1 RuntimeClass
policy v1 Eviction PodDisruptionBudget
rbac.authorization.k8s.io v1 ClusterRole ClusterRoleBinding Role RoleBinding
resource.k8s.io v1 DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io v1beta2 DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io v1beta1 DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io v1alpha3 DeviceTaintRule ResourcePoolStatusRequest
scheduling.k8s.io v1 PriorityClass
scheduling.k8s.io v1alpha2 PodGroup Workload
storage.k8s.io v1 CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
storage.k8s.io v1beta1 VolumeAttributesClass
storagemigration.k8s.io v1beta1 StorageVersionMigration
certificates.k8s.io v1 ClusterTrustBundle PodCertificateRequest
lifecycle.k8s.io v1alpha1 Eviction EvictionRequest
resource.k8s.io v1 DeviceTaintRule
scheduling.k8s.io v1beta1 PodGroup Workload
scheduling.k8s.io v1alpha3 CompositePodGroup PodGroup Workload
storagemigration.k8s.io v1 StorageVersionMigration
`)

func parsed(table string) (kinds []schema.GroupVersionKind) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		for _, kind := range words[2:] {
			kinds = append(kinds, schema.GroupVersionKind{Group: strings.Trim(words[0], `"`), Version: words[1], Kind: kind})
		}
	}
	return kinds
}

const maxDepth = 12

type filler struct {
	*rand.Rand
	empty int // of a hundred
}

func (random filler) object(kind schema.GroupVersionKind) []byte {
	object, err := schemeOf(kind.Group).New(kind)
	if err != nil {
		log.Fatal(err)
	}
	random.fill(reflect.ValueOf(object).Elem(), 0)
	if autoscaler, ok := object.(*autoscaling.HorizontalPodAutoscaler); ok {
		random.annotate(autoscaler, "metrics", &[]autoscaling.MetricSpec{})
		random.annotate(autoscaler, "current-metrics", &[]autoscaling.MetricStatus{})
		random.annotate(autoscaler, "conditions", &[]autoscaling.HorizontalPodAutoscalerCondition{})
		random.annotate(autoscaler, "behavior", &internal.HorizontalPodAutoscalerBehavior{})
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return encoded(object)
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return text
}

func (random filler) annotate(autoscaler *autoscaling.HorizontalPodAutoscaler, name string, value any) {
	if random.nothing() {
		return
	}
	random.fill(reflect.ValueOf(value).Elem(), 4)
	meta.SetMetaDataAnnotation(&autoscaler.ObjectMeta, "autoscaling.alpha.kubernetes.io/"+name, string(encoded(value)))
}

func (random filler) nothing() bool { return random.IntN(100) < random.empty }

func pick[T any](random filler, from ...T) T { return from[random.IntN(len(from))] }

var words = []string{"a", "web", "x-1", "é😀", "<&>", "10.0.0.1", "fd00::1"}

var digest = "@sha256:" + strings.Repeat("0", 64)
var images = []string{"nginx", "nginx:latest", "nginx:1", "a/b" + digest, "a/b:latest" + digest, "r:5000/a", "BAD", "a:", "UP/a"}

var amounts = []string{"0", "1", "500m", "1.5Gi", "100Mi", "12e6", "1E3", "-1500m", "1n", "100u", "999500u", "1.000001", "0.0001", "1e-3"}

var documents = []string{`{"a":1}`, `{}`, `"text"`, `[1,2.5,null,true]`, `1.0`, `1e2`, `[{"a":[1.0,{"b":2.50}]}]`, `9007199254740993.0`}

var annotations = []string{
	"a", "pod.beta.kubernetes.io/init-containers", "deprecated.deployment.rollback.to", "deprecated.daemonset.template.generation",
	"autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
}

// Names of types and fields whose values affect defaults.
var texts = map[string][]string{
	"ServiceType":                    {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
	"ServiceAffinity":                {"None", "ClientIP"},
	"LimitType":                      {"Container", "Pod"},
	"DeploymentStrategyType":         {"RollingUpdate", "Recreate"},
	"DaemonSetUpdateStrategyType":    {"RollingUpdate", "OnDelete"},
	"StatefulSetUpdateStrategyType":  {"RollingUpdate", "OnDelete"},
	"ContainerRestartPolicy":         {"Always", "Never"},
	"DeviceAllocationMode":           {"ExactCount", "All"},
	"MetricSourceType":               {"Resource", "Pods"},
	"ResourceName":                   {"cpu", "memory", "hugepages-2Mi", "example.com/x"},
	"Subject.Kind":                   {"User", "Group", "ServiceAccount"},
	"LabelSelectorRequirement.Key":   {"a", "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"},
	"Container.Image":                images,
	"EphemeralContainerCommon.Image": images,
	"ImageVolumeSource.Reference":    images,
}

func (random filler) special(value any, depth int) bool {
	switch value := value.(type) {
	case *meta.TypeMeta:
	case *meta.Time:
		if !random.nothing() {
			*value = meta.NewTime(time.Unix(random.Int64N(1<<30), 0))
		}
	case *meta.MicroTime:
		if !random.nothing() {
			*value = meta.NewMicroTime(time.Unix(random.Int64N(1<<30), 1000*random.Int64N(1e6)))
		}
	case *resource.Quantity:
		*value = resource.MustParse(pick(random, amounts...))
	case *intstr.IntOrString:
		*value = pick(random, intstr.IntOrString{}, intstr.FromInt32(8), intstr.FromString("a"), intstr.FromString(""))
	case *runtime.RawExtension:
		value.Raw = []byte(pick(random, documents[:2]...))
	case *meta.FieldsV1:
		value.SetRawBytes([]byte(`{"f:metadata":{}}`))
	case *apiextensions.JSON:
		value.Raw = []byte(pick(random, documents...))
	case *apiextensions.JSONSchemaPropsOrStringArray:
		value.Property = []string{"a"}
	case *apiextensions.JSONSchemaPropsOrArray:
		value.Schema = &apiextensions.JSONSchemaProps{}
		random.fill(reflect.ValueOf(value.Schema).Elem(), depth+2)
	case *apiextensions.JSONSchemaPropsOrBool:
		value.Allows = random.IntN(2) == 0
		if value.Allows && random.IntN(2) == 0 {
			value.Schema = &apiextensions.JSONSchemaProps{}
			random.fill(reflect.ValueOf(value.Schema).Elem(), depth+2)
		}
	case *meta.ObjectMeta:
		random.fill(reflect.ValueOf(&value.Name).Elem(), depth+1)
		random.fill(reflect.ValueOf(&value.Labels).Elem(), depth+1)
		if !random.nothing() {
			value.Annotations = map[string]string{pick(random, annotations...): pick(random, "5", "+07", "-3", "[]")}
		}
	default:
		return false
	}
	return true
}

func (random filler) fill(value reflect.Value, depth int) {
	if random.special(value.Addr().Interface(), depth) {
		return
	}
	of := value.Type()
	if of.Kind() == reflect.Struct {
		for i := range of.NumField() {
			if from, ok := texts[of.Name()+"."+of.Field(i).Name]; ok {
				value.Field(i).SetString(pick(random, from...))
			} else {
				random.fill(value.Field(i), depth+1)
			}
		}
		return
	}
	if depth > 0 && random.nothing() {
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		if depth < maxDepth {
			value.Set(reflect.New(of.Elem()))
			random.fill(value.Elem(), depth+1)
		}
	case reflect.Slice:
		count := random.IntN(3)
		if depth < maxDepth && count > 0 {
			value.Set(reflect.MakeSlice(of, count, count))
			for i := range count {
				random.fill(value.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if depth < maxDepth {
			value.Set(reflect.MakeMap(of))
			for range random.IntN(3) {
				key, entry := reflect.New(of.Key()).Elem(), reflect.New(of.Elem()).Elem()
				random.fill(key, 0)
				random.fill(entry, depth+1)
				value.SetMapIndex(key, entry)
			}
		}
	case reflect.String:
		from := texts[of.Name()]
		value.SetString(pick(random, slices.Concat(from, from, words)...))
	case reflect.Bool:
		value.SetBool(random.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		value.SetInt(pick[int64](random, 0, 1, -1, 30, 8080))
	case reflect.Uint8:
		value.SetUint(random.Uint64N(256))
	case reflect.Float64:
		value.SetFloat(pick(random, 0, 1, -2.5, 1e-7))
	default:
		log.Fatalf("%s is not provided for", of)
	}
}
