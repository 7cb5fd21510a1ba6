// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

const (
	// explainTimeout bounds the questions after a failure; the context of the run may be over by then.
	explainTimeout = 10 * time.Second
	// shownEvents and shownLogLines keep the explanation on one screen.
	shownEvents   = 10
	shownLogLines = 20
)

// explainFailure shows what a person would look at first. It is best effort: the failure itself is reported anyway.
func (s *show) explainFailure(ctx context.Context, graphs []client.ObjectKey) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	namespaces := map[string]bool{}
	for _, key := range graphs {
		namespaces[key.Namespace] = true
		var graph v1alpha1.DynamoGraphDeployment
		if err := s.api.Get(ctx, key, &graph); err != nil {
			s.line("graph %s: %v", key, err)
			continue
		}
		s.line("graph %s: %s", key.Name, narrate(&graph))
	}
	for namespace := range namespaces {
		s.showWarnings(ctx, namespace)
	}
	if s.OperatorLog == "" {
		return
	}
	s.line("\nlast lines of the operator's log %s:", s.OperatorLog)
	s.line("%s", localcluster.LogTail(s.OperatorLog, shownLogLines))
}

// showWarnings lists the newest warnings of a namespace, oldest first.
func (s *show) showWarnings(ctx context.Context, namespace string) {
	var events corev1.EventList
	if err := s.api.List(ctx, &events, client.InNamespace(namespace)); err != nil {
		s.line("events of namespace %s: %v", namespace, err)
		return
	}
	warnings := slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.Type != corev1.EventTypeWarning })
	if len(warnings) == 0 {
		s.line("\nno warnings in namespace %s", namespace)
		return
	}
	slices.SortFunc(warnings, func(a, b corev1.Event) int {
		return cmp.Or(eventTime(a).Compare(eventTime(b)), cmp.Compare(a.Name, b.Name))
	})
	warnings = warnings[max(0, len(warnings)-shownEvents):]
	s.line("\nwarnings in namespace %s:", namespace)
	for _, e := range warnings {
		s.line("  %s/%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

// eventTime is when an event was last seen; senders fill in different fields.
func eventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	default:
		return e.EventTime.Time
	}
}

func (s *show) line(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, format+"\n", args...)
}
