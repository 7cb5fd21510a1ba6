// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// plot is a diagram of lines over the number of graphs. Both axes begin at zero.
type plot struct {
	title, unit string
	lines       []line
}

// line is one of them. Points are in the order of their X.
type line struct {
	name, colour string
	points       []perf.Point
}

// Sizes of a diagram, and how much of each side its labels need.
const (
	width, height            = 640, 360
	left, right, top, bottom = 64, 24, 44, 48
	ticks                    = 5
)

// svg draws the diagram. Equal plots give equal texts.
func (p plot) svg() string {
	xStep, yStep := step(p.most(func(q perf.Point) float64 { return q.X })), step(p.most(func(q perf.Point) float64 { return q.Y }))
	xEnd, yEnd := xStep*ticks, yStep*ticks
	x := func(v float64) string { return place(left + v/xEnd*(width-left-right)) }
	y := func(v float64) string { return place(height - bottom - v/yEnd*(height-top-bottom)) }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&s, `<text x="%d" y="20" font-size="14" fill="#111111">%s</text>`+"\n", left, html.EscapeString(p.title))
	for i := range ticks + 1 {
		v, h := float64(i)*yStep, float64(i)*xStep
		fmt.Fprintf(&s, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="#dddddd"/>`+"\n", x(0), y(v), x(xEnd), y(v))
		fmt.Fprintf(&s, `<text x="%d" y="%s" text-anchor="end" dominant-baseline="middle" fill="#444444">%s</text>`+"\n", left-8, y(v), number(v))
		fmt.Fprintf(&s, `<text x="%s" y="%d" text-anchor="middle" fill="#444444">%s</text>`+"\n", x(h), height-bottom+18, number(h))
	}
	fmt.Fprintf(&s, `<text x="%d" y="36" fill="#444444">%s</text>`+"\n", left, html.EscapeString(p.unit))
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="#444444">graphs</text>`+"\n", width-right, height-8)
	for i, l := range p.lines {
		l.draw(&s, x, y)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n",
			width-right, 14+13*i, l.colour, html.EscapeString(l.name))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

func (l line) draw(s *strings.Builder, x, y func(float64) string) {
	if len(l.points) == 0 {
		return
	}
	corners := make([]string, 0, len(l.points))
	for _, q := range l.points {
		corners = append(corners, x(q.X)+","+y(q.Y))
	}
	fmt.Fprintf(s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(corners, " "), l.colour)
	for _, q := range l.points {
		fmt.Fprintf(s, `<circle cx="%s" cy="%s" r="3" fill="%s"><title>%s: %s at %s graphs</title></circle>`+"\n",
			x(q.X), y(q.Y), l.colour, html.EscapeString(l.name), number(q.Y), number(q.X))
	}
}

// most is the largest coordinate of all points.
func (p plot) most(of func(perf.Point) float64) float64 {
	most := 0.0
	for _, l := range p.lines {
		for _, q := range l.points {
			most = max(most, of(q))
		}
	}
	return most
}

// step is the smallest round number of which so many as there are ticks reach a value.
func step(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/ticks)))
	for _, factor := range []float64{1, 2, 2.5, 4, 5} {
		if factor*unit*ticks >= most {
			return factor * unit
		}
	}
	return 10 * unit
}

func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// number is a value with as many digits as are of interest.
func number(v float64) string {
	digits := 2
	switch size := math.Abs(v); {
	case v == math.Trunc(v) || size >= 100:
		digits = 0
	case size >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
