// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// note is what a holder of ours says about itself. The reference keeps annotations when it takes a Lease, so a note
// counts only if it names the holder.
type note struct {
	Holder string `json:"holder"`
	// Election and Pod are what at most one living operator has: the leadership of an election, and a pod.
	Election string `json:"election,omitempty"`
	Pod      string `json:"pod,omitempty"`
	// Settled tells that the cluster-wide operator had time to let go, and that the holder works.
	Settled bool `json:"settled,omitempty"`
	// Released tells that the holder works no longer.
	Released bool `json:"released,omitempty"`
}

// String is the note as it stands in the annotation.
func (n note) String() string {
	text, _ := json.Marshal(n) // strings and truths can always be written
	return string(text)
}

// claim is a Lease, as far as it matters here.
type claim struct {
	uid      types.UID
	version  string
	holder   string
	duration time.Duration
	renewed  time.Time
	// note is empty for a holder that leaves none, such as the reference.
	note       note
	releasedTo string
}

func read(l *coordinationv1.Lease) claim {
	c := claim{uid: l.UID, version: l.ResourceVersion, releasedTo: l.Annotations[names.AnnotationReleasedTo]}
	if l.Spec.HolderIdentity != nil {
		c.holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		c.duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	if l.Spec.RenewTime != nil {
		c.renewed = l.Spec.RenewTime.Time
	}
	var n note
	if err := json.Unmarshal([]byte(l.Annotations[names.AnnotationScope]), &n); err == nil && n.Holder == c.holder {
		c.note = n
	}
	return c
}

// ours tells whether the holder waits for an acknowledgement.
func (c claim) ours() bool { return c.note.Holder != "" }

// acknowledged tells whether the cluster-wide operator has let go.
func (c claim) acknowledged() bool { return c.holder != "" && c.releasedTo == c.holder }

// sighting is a claim and when its holder last gave a sign of life, by the clock of the one who looks. Times that were
// written elsewhere are only compared with each other: clocks of machines differ.
//
// The reference writes no renewal time when it makes a Lease. It counts from when it was seen, like any other.
type sighting struct {
	claim

	at time.Time
}

// see is the sighting after a look at the Lease. Only the holder renews, so annotations are no sign of life.
func (s sighting) see(c claim, now time.Time) sighting {
	if c.uid == s.uid && c.holder == s.holder && c.renewed.Equal(s.renewed) {
		return sighting{claim: c, at: s.at}
	}
	return sighting{claim: c, at: now}
}

// expires is when the holder can no longer be working. Without a duration nothing was claimed.
func (s sighting) expires() time.Time { return s.at.Add(s.duration) }

// older tells whether version a comes before version b. What cannot be ordered is taken for news.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}
