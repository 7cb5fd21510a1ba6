// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// nullUser has the operator's rights, so that the API server queues its requests in the same way.
const nullUser = "null-writer"

// NullWriter is the least that anybody can do: for every graph, which exists, it creates the nine children as they are
// rendered and writes three statuses, one request after the other, on all connections, from bytes made beforehand. No
// operator runs and no webhook is called. Its span is from the first request to the last answer.
func (b *Bed) NullWriter(n int) Work {
	b.t.Helper()
	harness.GrantShippedRole(b.t, nullUser)
	w, err := newWriter(harness.RESTConfig(b.t, nullUser), harness.Client(b.t).RESTMapper())
	if err != nil {
		b.t.Fatal(err)
	}
	graphs := make([]*v1alpha1.DynamoGraphDeployment, n)
	api := b.Client(GeneratorUser)
	b.Each(n, "create graphs for the null writer", func(ctx context.Context, i int) error {
		graphs[i] = b.Graph(i)
		return api.Create(ctx, graphs[i])
	})
	work := make([][]write, n)
	for i, g := range graphs {
		if work[i], err = w.writes(g); err != nil {
			b.t.Fatal(err)
		}
	}
	meter, revision, begin := b.Meter(), b.Revision(), time.Now()
	b.Each(n, "write what a graph needs", func(ctx context.Context, i int) error { return w.send(ctx, work[i]) })
	return Work{Span: time.Since(begin), CPU: meter.CPU(), Revisions: b.Revision() - revision}
}

// Rehearsals are creations of n graphs that are judged and not stored, each sent by calling send with its number. Their bytes are
// made beforehand, so that whoever sends them takes next to nothing of the cores that answer.
func (b *Bed) Rehearsals(n int) (send func(ctx context.Context, i int) error) {
	b.t.Helper()
	w, err := newWriter(harness.RESTConfig(b.t, GeneratorUser), harness.Client(b.t).RESTMapper())
	if err != nil {
		b.t.Fatal(err)
	}
	paths, bodies := make([]string, n), make([][]byte, n)
	for i := range n {
		g := b.Graph(i)
		g.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
		if bodies[i], err = json.Marshal(g); err != nil {
			b.t.Fatal(err)
		}
		self := &unstructured.Unstructured{}
		if err := self.UnmarshalJSON(bodies[i]); err != nil {
			b.t.Fatal(err)
		}
		where, err := w.write(self)
		if err != nil {
			b.t.Fatal(err)
		}
		paths[i] = where.collection + "?dryRun=" + metav1.DryRunAll
	}
	return func(ctx context.Context, i int) error {
		_, err := w.ask(ctx, http.MethodPost, paths[i], bodies[i])
		return err
	}
}

// write is what is sent about one object.
type write struct {
	// collection and object are paths. One of a graph, which exists, has no create.
	collection, object string
	create             []byte
	// status is the whole object with its status, with room for the version that the API server wants back; nil for none.
	status  []byte
	version string
}

// room stands for a version that is known only when the object was created.
const room = "@version@"

// mostIdle is how many connections are kept: of the usual number, whoever sends at a fixed rate would make more for every stall of the API
// server, each with a handshake that takes from the same cores.
const mostIdle = 256

// writer sends bytes.
type writer struct {
	base string
	http *http.Client
	kind meta.RESTMapper
}

func newWriter(config *rest.Config, kinds meta.RESTMapper) (*writer, error) {
	config.NextProtos = []string{"http/1.1"}
	certificates, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the null writer's client: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: certificates, MaxIdleConnsPerHost: mostIdle}}
	return &writer{base: strings.TrimSuffix(config.Host, "/"), http: client, kind: kinds}, nil
}

// writes prepares everything that a graph needs. The graph comes last, as with the operator.
func (w *writer) writes(g *v1alpha1.DynamoGraphDeployment) ([]write, error) {
	g.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
	children, problems := offline.Objects([]offline.Document{{Source: g.Name, Object: g}}, offline.DefaultOperator())
	if len(problems) > 0 {
		return nil, fmt.Errorf("render graph %s: %v", g.Name, problems)
	}
	var all []write
	for _, child := range children {
		complete(child, g.UID)
		next, err := w.write(child)
		if err != nil {
			return nil, err
		}
		if next.create, err = json.Marshal(child); err != nil {
			return nil, fmt.Errorf("encode %s: %w", child.GetName(), err)
		}
		if child.GetKind() == v1alpha1.KindDynamoComponentDeployment {
			if next.status, err = withStatus(child, componentStatus(child.GetName())); err != nil {
				return nil, err
			}
		}
		all = append(all, next)
	}
	text, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode graph %s: %w", g.Name, err)
	}
	self := &unstructured.Unstructured{}
	if err := self.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("encode graph %s: %w", g.Name, err)
	}
	last, err := w.write(self)
	if err != nil {
		return nil, err
	}
	last.version = g.ResourceVersion
	last.status, err = withStatus(self, graphStatus(g))
	return append(all, last), err
}

// complete adds what nothing offline knows and the operator adds: who owns the child, and a hash.
func complete(child *unstructured.Unstructured, owner types.UID) {
	refs := child.GetOwnerReferences()
	for i := range refs {
		refs[i].UID = owner // the API server does not look whether it is of that kind
	}
	child.SetOwnerReferences(refs)
	annotations := child.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationAppliedHash] = "v1:" + strings.Repeat("0", 64)
	child.SetAnnotations(annotations)
}

func (w *writer) write(o *unstructured.Unstructured) (write, error) {
	kind := o.GroupVersionKind()
	mapping, err := w.kind.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return write{}, fmt.Errorf("find where %s %s lives: %w", kind.Kind, o.GetName(), err)
	}
	root := "/apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		root = "/api/" + kind.Version
	}
	collection := root + "/namespaces/" + o.GetNamespace() + "/" + mapping.Resource.Resource
	return write{collection: collection, object: collection + "/" + o.GetName()}, nil
}

// withStatus is an object with a status, as a client sends it that has read it before.
func withStatus(o *unstructured.Unstructured, status any) ([]byte, error) {
	o = o.DeepCopy()
	o.SetResourceVersion(room)
	o.Object["status"] = status
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the status of %s: %w", o.GetName(), err)
	}
	return text, nil
}

func componentStatus(name string) v1alpha1.DynamoComponentDeploymentStatus {
	one := int32(1)
	return v1alpha1.DynamoComponentDeploymentStatus{
		ObservedGeneration: 1,
		Conditions: []metav1.Condition{
			isTrue(v1alpha1.ConditionAvailable, conditions.DeploymentReady), isTrue(v1alpha1.ConditionReady, conditions.DeploymentReady),
			isTrue(v1alpha1.ConditionValid, conditions.ValidationPassed),
		},
		Service: &v1alpha1.ServiceReplicaStatus{
			ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: name, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: &one,
			AvailableReplicas: &one,
		},
	}
}

func graphStatus(g *v1alpha1.DynamoGraphDeployment) v1alpha1.DynamoGraphDeploymentStatus {
	status := v1alpha1.DynamoGraphDeploymentStatus{
		ObservedGeneration: 1, State: v1alpha1.GraphStateSuccessful,
		Conditions: []metav1.Condition{
			isTrue(v1alpha1.ConditionAvailable, conditions.AllServicesAvailable), isTrue(v1alpha1.ConditionReady, conditions.AllResourcesReady),
		},
		Services: map[string]v1alpha1.ServiceReplicaStatus{},
	}
	for service := range g.Spec.Services {
		status.Services[service] = *componentStatus(names.Component(g.Name, service)).Service
	}
	return status
}

func isTrue(kind, reason string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "All resources are ready",
		ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
	}
}

// send makes all requests of a graph, one after the other.
func (w *writer) send(ctx context.Context, all []write) error {
	for _, next := range all {
		version := next.version
		if next.create != nil {
			answer, err := w.ask(ctx, http.MethodPost, next.collection, next.create)
			if err != nil {
				return err
			}
			if version, err = versionOf(answer); err != nil {
				return fmt.Errorf("create %s: %w", next.object, err)
			}
		}
		if next.status == nil {
			continue
		}
		body := bytes.Replace(next.status, []byte(room), []byte(version), 1)
		if _, err := w.ask(ctx, http.MethodPut, next.object+"/status", body); err != nil {
			return err
		}
	}
	return nil
}

func versionOf(answer []byte) (string, error) {
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(answer, &object)
	return object.Metadata.ResourceVersion, err
}

// unchecked spares the API server what the operator spares it, too: to parse everything twice in search of unknown fields. Whoever asks
// for something else, such as a user who only tries, does not.
const unchecked = "?fieldValidation=Ignore"

func (w *writer) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	url := w.base + path
	if !strings.Contains(path, "?") {
		url += unchecked
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := w.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return text, nil
}
