// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"math"
	"slices"
)

// Distribution says how a number of samples lie. A percentile is a sample that occurred, not a point between two.
type Distribution struct {
	Count              int
	P50, P99, Max, Sum float64
}

// Distribute folds samples.
func Distribute(samples []float64) Distribution {
	if len(samples) == 0 {
		return Distribution{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	d := Distribution{Count: len(sorted), P50: percentile(sorted, 50), P99: percentile(sorted, 99), Max: sorted[len(sorted)-1]}
	for _, s := range sorted {
		d.Sum += s
	}
	return d
}

// percentile is the smallest sample that so many of a hundred do not exceed.
func percentile(sorted []float64, hundredths float64) float64 {
	rank := int(math.Ceil(hundredths / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Median is the middle sample, the lower one of two.
func Median(samples []float64) float64 { return Distribute(samples).P50 }

// Point is a measurement at a size.
type Point struct{ X, Y float64 }

// Slope is how much Y grows per unit of X, by least squares.
func Slope(points []Point) float64 {
	var x, y float64
	for _, p := range points {
		x += p.X / float64(len(points))
		y += p.Y / float64(len(points))
	}
	var over, under float64
	for _, p := range points {
		over += (p.X - x) * (p.Y - y)
		under += (p.X - x) * (p.X - x)
	}
	if under == 0 {
		return 0
	}
	return over / under
}
