// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Call is what a request to an API server, or to a worker, is about.
type Call struct {
	Method, Group, Resource, Name, Subresource string
	// Namespace is where the object is, empty for what is in none.
	Namespace string
	// Watch tells a stream of news from an answer; Streams tells that it begins with all there is.
	Watch, Streams bool
}

// CallOf reads a request.
func CallOf(method string, address *url.URL) Call {
	query := address.Query()
	c := Call{Method: method, Watch: isSet(query.Get("watch")), Streams: isSet(query.Get("sendInitialEvents"))}
	parts := strings.Split(strings.Trim(address.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "apis":
		c.Group, parts = parts[1], parts[3:]
	case len(parts) > 1 && parts[0] == "api":
		parts = parts[2:]
	default:
		return c // health, versions and the like
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&c.Resource, &c.Name, &c.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return c
}

// CallToWorker reads a request to a worker. One that changes what the worker has is as much a write as one that the API server stores;
// what it has may be asked for ever.
func CallToWorker(worker, method string, address *url.URL) Call {
	if method == http.MethodGet {
		return Call{Method: method}
	}
	return Call{Method: method, Resource: "workers", Name: worker, Subresource: strings.TrimPrefix(address.Path, "/v1/")}
}

func isSet(value string) bool { return value == "true" || value == "1" }

// String names the request as a log line would, in words that fit every namespace.
func (c Call) String() string {
	name := c.Name
	if c.Namespace != "" {
		name = maskText(name, c.Namespace)
	}
	parts := slices.DeleteFunc([]string{c.Resource, name, c.Subresource}, func(s string) bool { return s == "" })
	return c.Method + " " + strings.Join(parts, "/")
}

// occurrence names one of several requests that are alike: "PATCH services/chat-frontend #2" is the second of them. Requests about
// different objects go out at the same time and overtake each other; those about one object do not, so that a name always means the
// same one.
func (c Call) occurrence(k int) string { return fmt.Sprintf("%s #%d", c, k) }

// alike is the name of an occurrence without its number.
func alike(occurrence string) string {
	name, _, _ := strings.Cut(occurrence, " #")
	return name
}

// Object is what the request is about, whatever it does to it.
func (c Call) Object() string { return c.Resource + "/" + c.Name }

// Target is the part of an object that the request is about.
func (c Call) Target() string { return strings.TrimSuffix(c.Object()+"/"+c.Subresource, "/") }

// IsWrite tells whether a request changes something that outlives the operator. Events tell, Leases are held and reviews
// ask; they do not change anything.
func (c Call) IsWrite() bool {
	switch c.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return c.Resource != "events" && c.Resource != "leases" && !strings.HasSuffix(c.Resource, "reviews")
	}
	return false
}

// IsWork tells whether a request shows that an operator is busy. Watches are renewed and Leases held for ever.
func (c Call) IsWork() bool { return !c.Watch && c.Resource != "" && c.Resource != "leases" }
