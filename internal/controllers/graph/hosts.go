// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
)

// clashes tells of every host that the graph shares with one that had it first, in the order of the hosts. Which of the
// two gets the traffic is up to whoever serves the host, so both work on and the later one hears of it.
func (r *Reconciler) clashes(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) ([]string, error) {
	hosts := render.Hosts(g, r.Settings)
	var found []string
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		others, err := r.Hosts.Sharing(ctx, g, host)
		if err != nil {
			return nil, err
		}
		for _, other := range others {
			if earlier(&other, g) {
				found = append(found, fmt.Sprintf("%s is also published by graph %s/%s, which was there first: set spec.services[%s].ingress.host",
					host, other.Namespace, other.Name, hosts[host]))
				break
			}
		}
	}
	return found, nil
}

// earlier orders graphs by age. Of two of one second, the name decides, so that both agree.
func earlier(a, b *v1alpha1.DynamoGraphDeployment) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

func putClashes(set *conditions.Set, clashes []string) {
	if len(clashes) > 0 {
		set.Put(v1alpha1.ConditionHostConflict, metav1.ConditionTrue, conditions.HostTaken, strings.Join(clashes, "; "))
	}
}
