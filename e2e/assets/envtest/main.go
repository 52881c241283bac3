// A program as the tests of controllers are: controller-runtime's envtest starts the binaries of KUBEBUILDER_ASSETS, and a manager, a user with few
// rights and a service account use the API server. The same program passes on the real kube-apiserver and etcd, and on an existing cluster (USE_EXISTING_CLUSTER, KUBECONFIG).
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// patience bounds each wait; from the environment.
var patience time.Duration

func main() {
	logf.SetLogger(logr.Discard())
	var err error
	if patience, err = time.ParseDuration(os.Getenv("PATIENCE")); err != nil {
		log.Fatalf("PATIENCE: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	defer cancel()
	environment := &envtest.Environment{ControlPlane: envtest.ControlPlane{}}
	apiServer := environment.ControlPlane.GetAPIServer()
	apiServer.Out, apiServer.Err = os.Stderr, os.Stderr
	apiServer.Configure().Append("enable-admission-plugins", "AlwaysPullImages")
	began := time.Now()
	config, err := environment.Start()
	if err != nil {
		log.Fatalf("start: %v", err)
	}
	started := time.Since(began)
	err = use(ctx, environment, config)
	began = time.Now()
	if stopped := environment.Stop(); stopped != nil {
		log.Fatalf("stop: %v", stopped)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("started in %d ms, stopped in %d ms\n", started.Milliseconds(), time.Since(began).Milliseconds())
}

func use(ctx context.Context, environment *envtest.Environment, config *rest.Config) error {
	admin, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	if err := admin.Create(ctx, namespace); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, *envtest.Environment, client.Client, string) error
	}{
		{"pods", admits}, {"manager", manages}, {"users", authorizes}, {"tokens", issuesTokens}, {"deletion", terminates},
	} {
		if err := step.run(ctx, environment, admin, namespace.Name); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// Plugins admit a pod.
func admits(ctx context.Context, _ *envtest.Environment, admin client.Client, namespace string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "nginx", SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
		}}},
	}
	if err := admin.Create(ctx, pod); err != nil {
		return err
	}
	if policy := pod.Spec.Containers[0].ImagePullPolicy; policy != corev1.PullAlways {
		return fmt.Errorf("pull policy %s", policy)
	}
	pod.Name, pod.ResourceVersion, pod.Namespace = "two", "", "missing"
	if err := admin.Create(ctx, pod); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a pod in a missing namespace: %v", err)
	}
	return nil
}

// A manager's controller sees Deployments and writes their status.
func manages(ctx context.Context, environment *envtest.Environment, admin client.Client, namespace string) error {
	manager, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "shop", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		var deployment appsv1.Deployment
		if err := manager.GetClient().Get(ctx, request.NamespacedName, &deployment); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		deployment.Status.ObservedGeneration = deployment.Generation
		deployment.Status.Replicas = *deployment.Spec.Replicas
		return reconcile.Result{}, manager.GetClient().Status().Update(ctx, &deployment)
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&appsv1.Deployment{}).Complete(reconciler); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
	if err := admin.Create(ctx, deployment); err != nil {
		stop()
		return err
	}
	err = eventually(func() error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if deployment.Status.Replicas != 3 || deployment.Status.ObservedGeneration != 1 {
			return fmt.Errorf("status %+v", deployment.Status)
		}
		return nil
	})
	stop()
	return errors.Join(err, <-ended)
}

// RBAC authorizes users, and impersonated ones.
func authorizes(ctx context.Context, environment *envtest.Environment, admin client.Client, namespace string) error {
	user, err := configOf(environment, envtest.User{Name: "jane", Groups: []string{"dev"}})
	if err != nil {
		return err
	}
	jane, err := client.New(user, client.Options{})
	if err != nil {
		return err
	}
	pods := func() error { return jane.List(ctx, &corev1.PodList{}, client.InNamespace(namespace)) }
	if err := pods(); !apierrors.IsForbidden(err) {
		return fmt.Errorf("jane without a role: %v", err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "readers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "readers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "dev"}},
	}
	if err := errors.Join(admin.Create(ctx, role), admin.Create(ctx, binding)); err != nil {
		return err
	}
	return eventually(pods)
}

// The authority of an existing cluster signs nothing for envtest, whose administrator impersonates instead.
func configOf(environment *envtest.Environment, user envtest.User) (*rest.Config, error) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		config := rest.CopyConfig(environment.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user.Name, Groups: user.Groups}
		return config, nil
	}
	added, err := environment.AddUser(user, nil)
	if err != nil {
		return nil, err
	}
	return added.Config(), nil
}

// A token of a service account authenticates, until the account is deleted.
func issuesTokens(ctx context.Context, environment *envtest.Environment, admin client.Client, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
	if err := admin.Create(ctx, account); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: request.Status.Token}}
	if err := admin.Create(ctx, review); err != nil || !review.Status.Authenticated {
		return fmt.Errorf("review %+v: %v", review.Status, err)
	}
	config := rest.AnonymousClientConfig(environment.Config)
	config.BearerToken = request.Status.Token
	robot, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := robot.Create(ctx, self); err != nil {
		return err
	}
	if name := self.Status.UserInfo.Username; name != "system:serviceaccount:"+namespace+":robot" {
		return fmt.Errorf("the robot is %s", name)
	}
	if err := admin.Delete(ctx, account); err != nil {
		return err
	}
	review = &authenticationv1.TokenReview{Spec: review.Spec}
	return eventually(func() error {
		review.ResourceVersion, review.Status = "", authenticationv1.TokenReviewStatus{}
		if err := admin.Create(ctx, review); err != nil || review.Status.Authenticated {
			return fmt.Errorf("review of the token of a deleted account %+v: %v", review.Status, err)
		}
		return nil
	})
}

// Without controllers a namespace stays.
func terminates(ctx context.Context, _ *envtest.Environment, admin client.Client, namespace string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := admin.Delete(ctx, object); err != nil {
		return err
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if object.Status.Phase != corev1.NamespaceTerminating {
		return fmt.Errorf("phase %s", object.Status.Phase)
	}
	return nil
}

func eventually(attempt func() error) error {
	end := time.Now().Add(patience)
	for {
		err := attempt()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
