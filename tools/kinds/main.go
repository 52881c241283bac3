// Writes crates/kubernetes-object/src/kinds.txt: facts of kube-apiserver's storages and strategies about each built-in resource.
//
//	go run -modfile=../../e2e/assets/go.mod . > kinds-1.36.txt
//	go run -modfile=../../e2e/newer/go.mod -tags=kubernetes_1_37 . > kinds-1.37.txt
//	../union.py 36=kinds-1.36.txt 37=kinds-1.37.txt > ../../crates/kubernetes-object/src/kinds.txt
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	crdscheme "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crds "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservices "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	batchapi "k8s.io/kubernetes/pkg/apis/batch"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/controlplane"
	kubelet "k8s.io/kubernetes/pkg/kubelet/client"
	admissionregistration "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	apiserverinternal "k8s.io/kubernetes/pkg/registry/apiserverinternal/rest"
	apps "k8s.io/kubernetes/pkg/registry/apps/rest"
	authentication "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorization "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscaling "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batch "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificates "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordination "k8s.io/kubernetes/pkg/registry/coordination/rest"
	componentstatuses "k8s.io/kubernetes/pkg/registry/core/componentstatus"
	endpoints "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	limitranges "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	nodes "k8s.io/kubernetes/pkg/registry/core/node/storage"
	persistentvolumes "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	persistentvolumeclaims "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	pods "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplates "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	replicationcontrollers "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	core "k8s.io/kubernetes/pkg/registry/core/rest"
	services "k8s.io/kubernetes/pkg/registry/core/service/storage"
	discovery "k8s.io/kubernetes/pkg/registry/discovery/rest"
	events "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrol "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networking "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policy "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbac "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resource "k8s.io/kubernetes/pkg/registry/resource/rest"
	scheduling "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	storagemigration "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
	"k8s.io/utils/ptr"
)

const header = `# Built-in resources, as kube-apiserver's storages and strategies have them; tools/kinds writes this file.
#
# Columns: group ("" is core), resource, kind, scope, then facts:
# not-stored            objects are answered, and never stored
# created-by-put        AllowCreateOnUpdate
# updated-by-version    AllowUnconditionalUpdate is false: an update names a resourceVersion
# returned              ReturnDeletedObject: a delete is answered with the object
# generation            PrepareForCreate sets metadata.generation
# status, scale         the resource has this subresource
# resets=A,B            fields that a write of the resource resets (GetResetFields)
# resets/status=A,B     fields that a write of the subresource resets
# FACT@V,W              the fact holds of these versions only
`

type everything struct{}

func (everything) ResourceEnabled(schema.GroupVersionResource) bool           { return true }
func (everything) ResourceExplicitlyEnabled(schema.GroupVersionResource) bool { return true }
func (everything) VersionExplicitlyEnabled(schema.GroupVersion) bool          { return true }
func (everything) AnyResourceForGroupEnabled(string) bool                     { return true }
func (everything) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: (&storagebackend.Config{}).ForResource(resource),
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
		ResourcePrefix: resource.Resource,
	}, nil
}

type provider interface {
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// The storages of the core group that corerest creates only with a connection to etcd.
func coreStorages(options generic.RESTOptionsGetter) map[string]rest.Storage {
	volume, volumeStatus, err := persistentvolumes.NewREST(options)
	must(volume, err)
	claim, claimStatus, err := persistentvolumeclaims.NewREST(options)
	must(claim, err)
	service, serviceStatus, _, err := services.NewREST(options, api.IPv4Protocol, nil, nil, nil, nil, nil)
	must(service, err)
	node := must(nodes.NewStorage(options, kubelet.KubeletClientConfig{}, nil))
	pod := must(pods.NewStorage(options, nil, nil, nil, nil))
	controller := must(replicationcontrollers.NewStorage(options))
	return map[string]rest.Storage{
		"bindings":                      pod.LegacyBinding,
		"componentstatuses":             componentstatuses.NewStorage(nil),
		"endpoints":                     must(endpoints.NewREST(options)),
		"limitranges":                   must(limitranges.NewREST(options)),
		"nodes":                         node.Node,
		"nodes/status":                  node.Status,
		"persistentvolumeclaims":        claim,
		"persistentvolumeclaims/status": claimStatus,
		"persistentvolumes":             volume,
		"persistentvolumes/status":      volumeStatus,
		"pods":                          pod.Pod,
		"pods/status":                   pod.Status,
		"podtemplates":                  must(podtemplates.NewREST(options)),
		"replicationcontrollers":        controller.Controller,
		"replicationcontrollers/scale":  controller.Scale,
		"replicationcontrollers/status": controller.Status,
		"services":                      service,
		"services/status":               serviceStatus,
	}
}

// Returns the generic store inside of a storage, which wrappers hold in fields of any name.
func store(value reflect.Value, depth int) *registry.Store {
	for value.Kind() == reflect.Interface || value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return nil
		}
		if value.Type() == reflect.TypeFor[*registry.Store]() {
			return (*registry.Store)(unsafe.Pointer(value.Pointer()))
		}
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct || depth == 0 {
		return nil
	}
	for index := range value.NumField() {
		if found := store(value.Field(index), depth-1); found != nil {
			return found
		}
	}
	return nil
}

// Reports whether a new object has a generation.
func hasGeneration(store *registry.Store) bool {
	object := store.New()
	if job, isOne := object.(*batchapi.Job); isOne {
		job.Spec.Selector = &v1.LabelSelector{}
		job.Spec.ManualSelector = ptr.To(true)
	}
	store.CreateStrategy.PrepareForCreate(context.Background(), object)
	return must(meta.Accessor(object)).GetGeneration() != 0
}

// Returns the reset fields of any version: they differ only in the version's name.
func resets(storage rest.Storage) []string {
	strategy, isOne := storage.(rest.ResetFieldsStrategy)
	var fields []string
	if !isOne {
		return nil
	}
	for _, set := range strategy.GetResetFields() {
		for path := range set.All() {
			fields = append(fields, strings.TrimPrefix(path.String(), "."))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func main() {
	if err := utilfeature.DefaultMutableFeatureGate.Set("AllAlpha=true,AllBeta=true"); err != nil {
		log.Fatal(err)
	}
	options := everything{}
	always := authorizerfactory.NewAlwaysAllowAuthorizer()
	client := kubernetes.NewForConfigOrDie(&restclient.Config{Host: "nowhere.invalid"})
	groups := []map[string]map[string]rest.Storage{}
	names := []string{}
	add := func(group string, storages map[string]map[string]rest.Storage) {
		names, groups = append(names, group), append(groups, storages)
	}
	for _, provider := range append([]provider{
		&core.GenericConfig{}, admissionregistration.RESTStorageProvider{Authorizer: always, DiscoveryClient: client.Discovery()}, apiserverinternal.StorageProvider{}, apps.StorageProvider{},
		authentication.RESTStorageProvider{Authenticator: anonymous.NewAuthenticator(nil)},
		authorization.RESTStorageProvider{Authorizer: always}, autoscaling.RESTStorageProvider{}, batch.RESTStorageProvider{}, certificates.RESTStorageProvider{Authorizer: always},
		coordination.RESTStorageProvider{}, discovery.StorageProvider{}, events.RESTStorageProvider{},
		flowcontrol.RESTStorageProvider{}, networking.RESTStorageProvider{}, noderest.RESTStorageProvider{},
		policy.RESTStorageProvider{}, rbac.RESTStorageProvider{Authorizer: always}, resource.RESTStorageProvider{Authorizer: always, NamespaceClient: client.CoreV1().Namespaces()},
		scheduling.RESTStorageProvider{}, storagerest.RESTStorageProvider{}, storagemigration.RESTStorageProvider{},
	}, providersOfRelease...) {
		group := must(provider.NewRESTStorage(options, options))
		name := group.PrioritizedVersions[0].Group
		add(name, group.VersionedResourcesStorageMap)
	}
	add("", map[string]map[string]rest.Storage{"v1": coreStorages(options)})
	definition := must(crds.NewREST(crdscheme.Scheme, options))
	add("apiextensions.k8s.io", map[string]map[string]rest.Storage{"v1": {
		"customresourcedefinitions": definition, "customresourcedefinitions/status": crds.NewStatusREST(crdscheme.Scheme, definition),
	}})
	service := apiservices.NewREST(aggregator.Scheme, options)
	add("apiregistration.k8s.io", map[string]map[string]rest.Storage{"v1": {
		"apiservices": service, "apiservices/status": apiservices.NewStatusREST(aggregator.Scheme, service),
	}})

	lines := []string{}
	for index, group := range names {
		found := map[string]map[string][]string{}
		for version, storages := range groups[index] {
			for name := range storages {
				if strings.Contains(name, "/") {
					continue
				}
				if found[name] == nil {
					found[name] = map[string][]string{}
				}
				found[name][version] = columns(group, name, storages)
			}
		}
		for _, byVersion := range found {
			lines = append(lines, line(byVersion))
		}
	}
	slices.Sort(lines)
	fmt.Print(header)
	fmt.Println(strings.Join(lines, "\n"))
}

// Returns the line of a resource. A fact that only some of its versions have names them.
func line(byVersion map[string][]string) string {
	versions := slices.Sorted(maps.Keys(byVersion))
	var facts []string
	having := map[string][]string{}
	for _, version := range versions {
		for _, fact := range byVersion[version] {
			if having[fact] == nil {
				facts = append(facts, fact)
			}
			having[fact] = append(having[fact], version)
		}
	}
	for index, fact := range facts {
		if len(having[fact]) < len(versions) {
			facts[index] += "@" + strings.Join(having[fact], ",")
		}
	}
	return strings.Join(facts, " ")
}

func columns(group, name string, storages map[string]rest.Storage) []string {
	storage := storages[name]
	scope := "cluster"
	if storage.(rest.Scoper).NamespaceScoped() {
		scope = "namespaced"
	}
	if group == "" {
		group = `""`
	}
	columns := []string{group, name, reflect.TypeOf(storage.New()).Elem().Name(), scope}
	given := func(is bool, fact string) {
		if is {
			columns = append(columns, fact)
		}
	}
	store := store(reflect.ValueOf(storage), 4)
	_, isRead := storage.(rest.Getter)
	isStored := store != nil && isRead
	given(!isStored, "not-stored")
	if isStored {
		given(allowsCreateOnUpdate(store.UpdateStrategy), "created-by-put")
		given(!allowsUnconditionalUpdate(store.UpdateStrategy), "updated-by-version")
		given(store.ReturnDeletedObject, "returned")
		given(hasGeneration(store), "generation")
	}
	given(storages[name+"/status"] != nil, "status")
	given(storages[name+"/scale"] != nil, "scale")
	given(len(resets(storage)) > 0, "resets="+strings.Join(resets(storage), ","))
	for _, path := range slices.Sorted(maps.Keys(storages)) {
		if fields := resets(storages[path]); strings.HasPrefix(path, name+"/") && len(fields) > 0 {
			columns = append(columns, "resets"+strings.TrimPrefix(path, name)+"="+strings.Join(fields, ","))
		}
	}
	return columns
}
