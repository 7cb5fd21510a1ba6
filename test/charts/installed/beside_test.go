// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// TestOthers is one story about what is there already: definitions, the reference, and an operator of one namespace.
func TestOthers(t *testing.T) {
	story.CleanUp(t)
	t.Run("definitions of nobody's are refused with their name", definitionsOfNobody)
	story.Upgrade(t, story.Charts+"/crds", story.Definitions())
	t.Run("wrong values leave nothing behind", wrongValues)
	k := kubelet.New(t, story.System, story.Deployment)
	k.Hasty = true
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	t.Run("beside the reference", func(t *testing.T) {
		held := holdLease(t, "reference-controller-manager-abc_1")
		story.Upgrade(t, story.Charts+"/platform", story.Platform(story.Briskly(t, story.Set(t, `dynamo-operator: {controllerManager: {replicas: 1}}`))))
		k.Roll()
		waitsFor(t, k, ns, held)
	})
	t.Run("the samples are admitted", func(t *testing.T) { samples(t, ns) })
	t.Run("beside an operator of one namespace", func(t *testing.T) { besideRestricted(t, ns) })
	k.Stop()
}

func definitionsOfNobody(t *testing.T) {
	all, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	one := all[0].DeepCopy()
	if err := harness.Client(t).Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	err = story.Helm(t).Upgrade(t.Context(), story.Charts+"/crds", story.Definitions())
	if err == nil || !strings.Contains(err.Error(), one.Name) || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("installing over %s: %v", one.Name, err)
	}
	if err := harness.Client(t).Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the end of the definition", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(one), &apiextensionsv1.CustomResourceDefinition{})
		return apierrors.IsNotFound(err), "it is there"
	})
	// What is left is a release that failed, which the next installation replaces.
	if err := story.Helm(t).Uninstall(story.Definitions()); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
}

func wrongValues(t *testing.T) {
	for values, key := range map[string]string{
		`dynamo-operator: {webhook: {timeout: 3}}`:                                 "timeout",
		`dynamo-operator: {controllerManager: {replicas: two}}`:                    "controllerManager/replicas",
		`dynamo-operator: {controllerManager: {leaderElection: {id: mine}}}`:       "controllerManager.leaderElection.id",
		`dynamo-operator: {controllerManager: {kubeRbacProxy: {image: {tag: a}}}}`: "controllerManager.kubeRbacProxy",
		`dynamo-operator: {webhook: {certificateSecret: {external: true}}}`:        "webhook.caBundle",
	} {
		err := story.Helm(t).Upgrade(t.Context(), story.Charts+"/platform", story.Platform(story.Set(t, values)))
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", values, err)
		}
	}
	err := harness.Client(t).Get(t.Context(), client.ObjectKey{Name: story.System}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a namespace was made for a release that there is not: %v", err)
	}
}

// holdLease takes the Lease that operators of all namespaces share, as the reference does, for a long time.
func holdLease(t *testing.T, holder string) *coordinationv1.Lease {
	t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dynamo.nvidia.com"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}
	if err := harness.Client(t).Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	return lease
}

// waitsFor checks that the operator does nothing but say for whom it waits, and works when the other has gone.
func waitsFor(t *testing.T, k *kubelet.Kubelet, ns string, held *coordinationv1.Lease) {
	t.Helper()
	g := story.Frontend(ns)
	harness.Eventually(t, time.Minute, "a graph taken by a standby", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), g)
		return err == nil, fmt.Sprint(err)
	})
	harness.Eventually(t, time.Minute, "a word about who leads", func() (bool, string) {
		log := k.Pods[0].Log()
		return strings.Contains(log, "Standing by") && strings.Contains(log, *held.Spec.HolderIdentity), k.Pods[0].LastWords(5)
	})
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil || len(g.Status.Conditions) > 0 {
		t.Errorf("it worked on a graph while another leads: %v %v", err, g.Status.Conditions)
	}
	if err := harness.Client(t).Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, g.Name)
}

// contented checks that preflight finds nothing wrong with operators that work beside each other: each has a Lease by which its
// replicas elect one, of the same name in another namespace.
func contented(t *testing.T, team string) {
	t.Helper()
	for _, ns := range []string{"kube-system", team} {
		lease := &coordinationv1.Lease{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "dynamo.nvidia.com"}, lease); err != nil {
			t.Errorf("nobody leads in %s; the test proves nothing: %v", ns, err)
		}
	}
	kubeconfig, err := harness.Cluster(t).Kubeconfig(localcluster.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{team, story.System} {
		cmd := exec.CommandContext(t.Context(), harness.Program(t, "kubectl-dynamo"), "preflight", "-n", ns, "--kubeconfig", kubeconfig)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("preflight in %s: %v\n%s", ns, err, said)
		}
	}
}

// besideRestricted installs an operator for one namespace beside that of all.
func besideRestricted(t *testing.T, ns string) {
	const team = "team-a"
	begin := story.Audit(t)
	harness.SimulateDeployments(t, team)
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "dynamo-operator-metrics-token"}, StringData: map[string]string{"token": "secret"}},
	} {
		if err := harness.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	release := charts.Release{Name: "team", Namespace: team, Values: story.Briskly(t, preset(t, "multi-tenant"))}
	account := madeByTheOther(t, team)
	if err := story.Helm(t).Upgrade(t.Context(), story.Charts+"/platform", release); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("over the account of the other operator: %v", err)
	}
	takeOver(t, account, release)
	const name = "team-dynamo-operator-controller-manager"
	k := kubelet.New(t, team, name)
	k.Hasty = true
	k.Roll()
	there, here := story.Frontend(team), story.Frontend(ns)
	for _, o := range []client.Object{there, here} {
		if err := harness.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	harness.AwaitReady(t, team, there.Name)
	harness.AwaitReady(t, ns, here.Name)
	isClaimed(t, team)
	story.Upgrade(t, story.Charts+"/platform", release) // which is all that it takes from now on
	story.Allowed(t, "system:serviceaccount:"+team+":"+name, begin)
	contented(t, team)
	k.Stop()
	if err := story.Helm(t).Uninstall(release); err != nil { // or the stories after this one would find it
		t.Error(err)
	}
	left := &corev1.ServiceAccount{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(account), left); err != nil || left.UID != account.UID || len(left.OwnerReferences) > 0 {
		t.Errorf("pods run under the account, which is now %v: %v", left.ObjectMeta, err)
	}
}

// isClaimed checks that a namespace was let go to the operator that holds it.
func isClaimed(t *testing.T, ns string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.ScopeLease}, lease); err != nil {
		t.Fatal(err)
	}
	if got := lease.Annotations[names.AnnotationReleasedTo]; got == "" || got != *lease.Spec.HolderIdentity {
		t.Errorf("the namespace was let go to %q and is held by %q", got, *lease.Spec.HolderIdentity)
	}
}

// takeOver has a release have the account that another operator made, as the guide does.
func takeOver(t *testing.T, account *corev1.ServiceAccount, r charts.Release) {
	t.Helper()
	key := client.ObjectKeyFromObject(account)
	identity := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/cloud-identity":"planner"}}}`))
	if err := harness.Client(t).Patch(t.Context(), account.DeepCopy(), identity); err != nil {
		t.Fatal(err)
	}
	nobodys := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null,"labels":{"app.kubernetes.io/name":null,"app.kubernetes.io/component":null,"app.kubernetes.io/managed-by":null,"nvidia.com/applied-by":null},"annotations":{"nvidia.com/applied-hash":null}}}`))
	if err := harness.Client(t).Patch(t.Context(), account.DeepCopy(), nobodys); err != nil {
		t.Fatal(err)
	}
	// The other operator is made to look at its graph, and has to leave the account as it is.
	g := &v1alpha1.DynamoGraphDeployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: r.Namespace, Name: account.OwnerReferences[0].Name}, g); err != nil {
		t.Fatal(err)
	}
	harness.Change(t, client.ObjectKeyFromObject(g), func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Frontend"].ExtraPodSpec.MainContainer.Image = "example.com/frontend:2"
	})
	harness.Eventually(t, time.Minute, "the graph looked at", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), g)
		return err == nil && g.Status.ObservedGeneration == g.Generation, fmt.Sprint(err, g.Status.Conditions)
	})
	now := &corev1.ServiceAccount{}
	if err := harness.Client(t).Get(t.Context(), key, now); err != nil || len(now.OwnerReferences) > 0 || now.UID != account.UID {
		t.Errorf("the other operator has it again: %v: %v", now.ObjectMeta, err)
	}
	if now.Annotations["example.com/cloud-identity"] == "" {
		t.Errorf("what an administrator wrote on it is gone: %v", now.Annotations)
	}
	h := story.Helm(t)
	h.TakeOwnership = true
	if err := h.Upgrade(t.Context(), story.Charts+"/platform", r); err != nil {
		t.Fatal(err)
	}
}

// madeByTheOther has the operator of all namespaces make the account of a planner.
func madeByTheOther(t *testing.T, ns string) *corev1.ServiceAccount {
	t.Helper()
	g := builders.Graph(ns, "planned").Service("Frontend", v1alpha1.ComponentTypeFrontend).Service("Planner", v1alpha1.ComponentTypePlanner).Obj()
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{}
	harness.Eventually(t, time.Minute, "the account of the planner", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.PlannerAccount}, account)
		return err == nil && len(account.OwnerReferences) > 0, fmt.Sprint(err)
	})
	return account
}

// samples has the operator judge what people start from. Nothing is stored.
func samples(t *testing.T, ns string) {
	objects, err := charts.Build(filepath.Join(story.Root, "config/samples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		u.SetNamespace(ns)
		if err := harness.Client(t).Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}
