// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func mustStart(t *testing.T, o Options) *Cluster {
	t.Helper()
	o.Progress = os.Stderr
	cluster, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func clientOf(t *testing.T, cluster *Cluster, user string) *kubernetes.Clientset {
	t.Helper()
	config, err := cluster.RESTConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func TestEveryActorHasAnIdentityOfItsOwn(t *testing.T) {
	t.Parallel()
	cluster := mustStart(t, Options{StateDir: clusterState(t)})
	if _, err := cluster.AddUser("tenant", "team-a", "team-b"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		UserAdmin: "admin", UserOperator: "dynamo-operator", UserSimulator: "simulator", UserUser: "user",
		userControllerManager: "system:kube-controller-manager", userScheduler: "system:kube-scheduler",
		userKwok: "kwok", userLWS: "lws", "tenant": "tenant",
	}
	got := map[string]string{}
	for user := range want {
		review, err := clientOf(t, cluster, user).AuthenticationV1().SelfSubjectReviews().
			Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("ask who %s is: %v", user, err)
		}
		got[user] = review.Status.UserInfo.Username
		if user == "tenant" && !cmp.Equal(review.Status.UserInfo.Groups, []string{"team-a", "team-b", "system:authenticated"}) {
			t.Errorf("groups of tenant: %v", review.Status.UserInfo.Groups)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identities (-want +got):\n%s", diff)
	}
	_, err := clientOf(t, cluster, "tenant").CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights lists secrets: %v", err)
	}
	if _, err := cluster.RESTConfig("nobody"); err == nil || !strings.Contains(err.Error(), "tenant") {
		t.Errorf("error about an unknown user does not list the known ones: %v", err)
	}
}

func TestStopLeavesNoProcessAndNoThrowawayState(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	cluster := mustStart(t, Options{StateDir: state, Throwaway: true})
	if running := processesOf(t, state); len(running) != 2 {
		t.Errorf("running are %v, want etcd and kube-apiserver", running)
	}
	if _, err := Start(t.Context(), Options{StateDir: state}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second start in the same place: %v, want %v", err, ErrRunning)
	}
	for range 2 {
		if err := cluster.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state is left: %v", err)
	}
}

func TestDataSurvivesKillsAndRestartsOfComponents(t *testing.T) {
	t.Parallel()
	cluster := mustStart(t, Options{StateDir: clusterState(t)})
	api := clientOf(t, cluster, UserAdmin)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{Etcd, APIServer} {
		if err := cluster.Kill(component); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Restart(t.Context(), component); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "answer of the restarted API server", func() bool {
		_, err := api.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		return err == nil
	})
}

func TestCrashedComponentIsReportedAndNotRestarted(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	cluster := mustStart(t, Options{StateDir: state})
	ended, err := cluster.Exited(APIServer)
	if err != nil {
		t.Fatal(err)
	}
	_, proc, err := cluster.find(APIServer)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(proc.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	eventually(t, "report of the crash", func() bool {
		status, err := ReadStatus(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		return !status.Healthy() && strings.Contains(status.Health[1].Detail, "ended unexpectedly (signal: killed)")
	})
}

func TestStartThatFailsShowsTheLastWordsOfTheCulprit(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	_, err := Start(t.Context(), Options{StateDir: state, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("a nonsensical flag was accepted")
	}
	for _, want := range []string{APIServer, "no-such-flag", "kube-apiserver.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestTakenPortMakesTheClusterMove(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	taken := listener.Addr().(*net.TCPAddr).Port
	attempts := 0
	cluster := mustStart(t, Options{StateDir: clusterState(t), choosePorts: func(map[string]int) (map[string]int, error) {
		attempts++
		ports, err := choosePorts(nil)
		if attempts == 1 {
			ports[portAPIServer] = taken
		}
		return ports, err
	}})
	if attempts != 2 {
		t.Errorf("ports were chosen %d times, want twice", attempts)
	}
	if _, err := clientOf(t, cluster, UserAdmin).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("ask the cluster at its new address: %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	changedMind := errors.New("changed my mind")
	go func() {
		awaitComponent(t, state, APIServer)
		cancel(changedMind)
	}()
	if _, err := Start(ctx, Options{StateDir: state}); !errors.Is(err, changedMind) {
		t.Errorf("start: %v, want %v", err, changedMind)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestKilledParentTakesItsChildrenAlong(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	parent := playInBackground(t, roleParent, state)
	awaitComponent(t, state, APIServer)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitNoProcess(t, state)
	// The children can be gone a moment before the last thread of the parent, and with it the lock.
	eventually(t, "sweeping of the abandoned state", func() bool {
		if err := SweepAbandoned(state); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(state)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestSweepingSparesAClusterInUse(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	mustStart(t, Options{StateDir: state})
	if err := SweepAbandoned(state); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStatus(t.Context(), state); err != nil {
		t.Errorf("status of a cluster that was spared: %v", err)
	}
}
