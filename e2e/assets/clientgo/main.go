// Command clientgo uses client-go, with protobuf, as a controller does, in the given namespace. It exits with an error at the first
// unexpected result. The variable ACCEPT names the media types that it accepts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: PATIENCE=DURATION clientgo NAMESPACE"))
	}
	patience, err := time.ParseDuration(os.Getenv("PATIENCE"))
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := connect()
	if err != nil {
		fail(err)
	}
	session := session{client, os.Args[1]}
	for _, step := range []func(context.Context) error{
		session.configMaps, session.deployments, session.pods, session.informer, session.refusals,
	} {
		if err := step(ctx); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func connect() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if accept := os.Getenv("ACCEPT"); accept != "" {
		config.AcceptContentTypes = accept
	}
	config.UserAgent = "clientgo-e2e"
	return kubernetes.NewForConfig(config)
}

type session struct {
	client    kubernetes.Interface
	namespace string
}

// expect returns an error unless both values are equal.
func expect[T comparable](what string, found, expected T) error {
	if found != expected {
		return fmt.Errorf("%s: %v, not %v", what, found, expected)
	}
	return nil
}

// configMaps creates, updates, patches in every way, lists, watches and deletes config maps.
func (s session) configMaps(ctx context.Context) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Data:       map[string]string{"k": "1"},
		BinaryData: map[string][]byte{"b": {0, 255, 10}},
	}
	created, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	watch, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watch.Stop()

	changed := created.DeepCopy()
	changed.Data["k"] = "2"
	updated, err := maps.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if err := expect("binary data", string(updated.BinaryData["b"]), "\x00\xff\n"); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an update of an old version is no conflict: %v", err)
	}
	for _, patch := range []struct {
		kind  types.PatchType
		body  string
		value string
	}{
		{types.JSONPatchType, `[{"op": "replace", "path": "/data/k", "value": "3"}]`, "3"},
		{types.MergePatchType, `{"data": {"k": "4"}}`, "4"},
		{types.StrategicMergePatchType, `{"data": {"k": "5"}}`, "5"},
	} {
		patched, err := maps.Patch(ctx, "one", patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", patch.kind, err)
		}
		if err := expect(string(patch.kind), patched.Data["k"], patch.value); err != nil {
			return err
		}
	}
	configuration := applycorev1.ConfigMap("one", s.namespace).WithData(map[string]string{"k": "6"})
	options := metav1.ApplyOptions{FieldManager: "e2e"}
	if _, err := maps.Apply(ctx, configuration, options); !apierrors.IsConflict(err) {
		return fmt.Errorf("an apply of what another manager owns is no conflict: %v", err)
	}
	options.Force = true
	applied, err := maps.Apply(ctx, configuration, options)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := expect("applied", applied.Data["k"], "6"); err != nil {
		return err
	}

	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=one"})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := expect("items", len(list.Items), 1); err != nil {
		return err
	}
	uid := types.UID("another")
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := maps.Delete(ctx, "one", wrong); !apierrors.IsConflict(err) {
		return fmt.Errorf("a delete of another uid is no conflict: %v", err)
	}
	if err := maps.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	seen := ""
	for event := range watch.ResultChan() {
		seen += string(event.Type) + " "
		if event.Type == "DELETED" {
			break
		}
	}
	return expect("events", seen, "MODIFIED MODIFIED MODIFIED MODIFIED MODIFIED DELETED ")
}

// deployments scales deployments and sets their status.
func (s session) deployments(ctx context.Context) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	labels := map[string]string{"app": "web"}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
	if _, err := deployments.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a deployment: %w", err)
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the scale: %w", err)
	}
	scale.Spec.Replicas = 3
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update the scale: %w", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status.ObservedGeneration = current.Generation
		current.Status.Replicas = 3
		_, err = deployments.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("update the status: %w", err)
	}
	stored, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get a deployment: %w", err)
	}
	if err := expect("replicas", [2]int32{*stored.Spec.Replicas, stored.Status.Replicas}, [2]int32{3, 3}); err != nil {
		return err
	}
	return deployments.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "no=one"})
}

// pods binds and evicts pods.
func (s session) pods(ctx context.Context) error {
	pods := s.client.CoreV1().Pods(s.namespace)
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	pod, err := pods.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a pod: %w", err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: s.namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
	}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	bound, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get a pod: %w", err)
	}
	if err := expect("node", bound.Spec.NodeName, "nowhere"); err != nil {
		return err
	}
	now := int64(0)
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// informer checks that an informer gets existing and new objects.
func (s session) informer(ctx context.Context) error {
	secrets := s.client.CoreV1().Secrets(s.namespace)
	create := func(name string) error {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"a": "b"}}
		_, err := secrets.Create(ctx, object, metav1.CreateOptions{})
		return err
	}
	if err := create("before"); err != nil {
		return fmt.Errorf("create a secret: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(s.namespace))
	seen := make(chan string, 16)
	informer := factory.Core().V1().Secrets().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { seen <- object.(*corev1.Secret).Name },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync")
	}
	if err := create("after"); err != nil {
		return fmt.Errorf("create another secret: %w", err)
	}
	for _, expected := range []string{"before", "after"} {
		select {
		case name := <-seen:
			if err := expect("seen by the informer", name, expected); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("the informer did not see %s", expected)
		}
	}
	return nil
}

// refusals checks that the client recognizes errors by their reasons.
func (s session) refusals(ctx context.Context) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	if _, err := maps.Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("what was deleted is found: %v", err)
	}
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Not_A_Name"}}
	if _, err := maps.Create(ctx, bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		return fmt.Errorf("an invalid name is taken: %v", err)
	}
	elsewhere := s.client.CoreV1().ConfigMaps("nowhere")
	good := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := elsewhere.Create(ctx, good, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a namespace that is not there is found: %v", err)
	}
	return nil
}
