// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Lives is how often an object was made and how often it went.
type Lives struct{ Made, Gone int }

// Diary follows every object of every namespace: what is there, when something last moved, and how often each name came and
// went. It sees objects that a comparison of two moments cannot: those that were deleted and made again.
type Diary struct {
	api   metadata.Interface
	kinds []schema.GroupVersionResource

	mu       sync.Mutex
	chapters map[string]*chapter
}

// chapter is about one namespace.
type chapter struct {
	versions Versions
	uids     map[string]types.UID
	lives    map[string]Lives
	moved    time.Time
}

// KeepDiary starts to follow the kinds of a world and returns when all of them are followed. It ends with the context.
func KeepDiary(ctx context.Context, config *rest.Config, world *World) (*Diary, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	api, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	d := &Diary{api: api, kinds: world.kinds, chapters: map[string]*chapter{}}
	for _, kind := range d.kinds {
		version, err := d.catchUp(ctx, kind)
		if err != nil {
			return nil, err
		}
		go d.follow(ctx, kind, version)
	}
	return d, nil
}

// catchUp reads what is there and notes what moved since it was last seen.
func (d *Diary) catchUp(ctx context.Context, kind schema.GroupVersionResource) (string, error) {
	list, err := d.api.Resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list %s: %w", kind.Resource, err)
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Namespace+"/"+list.Items[i].Name] = true
		d.note(kind.Resource, watch.Modified, &list.Items[i])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for namespace, c := range d.chapters {
		for key := range c.versions {
			resource, name := split(key)
			if resource == kind.Resource && !there[namespace+"/"+name] {
				c.gone(key)
			}
		}
	}
	return list.ResourceVersion, nil
}

// follow writes down what happens to a kind. A watch that ends is begun anew, if need be from what is there.
func (d *Diary) follow(ctx context.Context, kind schema.GroupVersionResource, version string) {
	for ctx.Err() == nil {
		w, err := d.api.Resource(kind).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err == nil {
			version = d.write(kind.Resource, w, version)
		}
		if err != nil || version == "" {
			again, err := d.catchUp(ctx, kind)
			if err != nil {
				pause(ctx, pollEvery)
				continue
			}
			version = again
		}
	}
}

// pause waits, but not beyond the end.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// write notes the events of one watch and returns the version to go on from, empty for none.
func (d *Diary) write(resource string, w watch.Interface, version string) string {
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return ""
		}
		version = object.ResourceVersion
		if event.Type != watch.Bookmark {
			d.note(resource, event.Type, object)
		}
	}
	return version
}

func (d *Diary) note(resource string, what watch.EventType, object *metav1.PartialObjectMetadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chapters[object.Namespace]
	if c == nil {
		c = &chapter{versions: Versions{}, uids: map[string]types.UID{}, lives: map[string]Lives{}}
		d.chapters[object.Namespace] = c
	}
	key := resource + "/" + object.Name
	switch {
	case what == watch.Deleted:
		c.gone(key)
		return
	case c.versions[key] == object.ResourceVersion:
		return
	case c.versions[key] != "" && c.uids[key] != object.UID:
		c.gone(key) // the watch missed it
		fallthrough
	case c.versions[key] == "":
		lives := c.lives[key]
		lives.Made++
		c.lives[key] = lives
	}
	c.versions[key], c.uids[key], c.moved = object.ResourceVersion, object.UID, time.Now()
}

func (c *chapter) gone(key string) {
	lives := c.lives[key]
	lives.Gone++
	c.lives[key] = lives
	delete(c.versions, key)
	c.moved = time.Now()
}

// Of returns what is known of a namespace: the versions of its objects, how often each came and went, and when something last
// moved.
func (d *Diary) Of(namespace string) (Versions, map[string]Lives, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.chapters[namespace]
	if c == nil {
		return Versions{}, map[string]Lives{}, time.Time{}
	}
	versions, lives := Versions{}, map[string]Lives{}
	maps.Copy(versions, c.versions)
	maps.Copy(lives, c.lives)
	return versions, lives, c.moved
}

// Version is the version of one object, empty when it is not there.
func (d *Diary) Version(namespace, key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.chapters[namespace]; c != nil {
		return c.versions[key]
	}
	return ""
}

// Moved is when something last moved in a namespace.
func (d *Diary) Moved(namespace string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.chapters[namespace]; c != nil {
		return c.moved
	}
	return time.Time{}
}

// Identities are the UIDs of what is in a namespace.
func (d *Diary) Identities(namespace string) map[string]types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]types.UID{}
	if c := d.chapters[namespace]; c != nil {
		for key := range c.versions {
			all[key] = c.uids[key]
		}
	}
	return all
}

// Forget drops what is known of a namespace that nobody will ask about again.
func (d *Diary) Forget(namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.chapters, namespace)
}
