package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/docket-exporter/exporter/internal/pgtest"
)

// browser is a headless Chromium with one tab, which ends with the test. It is
// installed by `tools/setup.sh chromium`.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the console said was wrong
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.WSURLReadTimeout(time.Minute))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own needs a user
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx}
	var listening sync.WaitGroup
	messages := chromedp.Console(ctx)
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.note(m)
		}
	})
	t.Cleanup(func() {
		cancelTab()
		cancel()
		listening.Wait()
	})
	return b
}

// note keeps errors of scripts, and what the page's policy has blocked.
func (b *browser) note(m chromedp.ConsoleMessage) {
	if m.IsException() || m.Type == "error" || m.Type == "warning" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, m.String())
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call is one command of the browser's protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// scripts lets pages run scripts, or not.
func (b *browser) scripts(run bool) {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
}

func (b *browser) window(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
}

// open shows a page in a window of this width, as one theme shows it.
func (b *browser) open(url string, width int64, theme string) {
	b.t.Helper()
	b.window(width, 900)
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	b.do(chromedp.Navigate(url))
}

// ask evaluates an expression in the page.
func ask[T any](b *browser, script string) T {
	b.t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// text is what is visible of the elements that match.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return ask[string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText).join("\n")`, selector))
}

// await waits until all texts are visible.
func (b *browser) await(selector string, texts ...string) {
	b.t.Helper()
	b.until(func() {}, selector, texts)
}

// reload loads the page again and again until all texts are visible, which is
// sooner than it refreshes itself.
func (b *browser) reload(selector string, texts ...string) {
	b.t.Helper()
	b.until(func() { b.do(chromedp.Reload()) }, selector, texts)
}

func (b *browser) until(again func(), selector string, texts []string) {
	b.t.Helper()
	pgtest.Eventually(b.t, 20*time.Second, func() error {
		got := b.text(selector)
		missing := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return strings.Contains(got, s) })
		if len(missing) == 0 {
			return nil
		}
		again()
		return fmt.Errorf("%s lacks %q:\n%s", selector, missing, got)
	})
}

// wantFit fails the test when the page is wider than its window.
func (b *browser) wantFit() {
	b.t.Helper()
	wide := ask[[]string](b, `[...document.querySelectorAll("body, body *")]
		.filter(e => !e.closest("svg") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
		.map(e => e.tagName + "." + e.className + " " + e.innerText.slice(0, 40))`)
	if over := ask[float64](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 || len(wide) > 0 {
		b.t.Errorf("the page is %v px too wide: %q", over, wide)
	}
}

// wantNames fails the test when what a screen reader meets has no name.
func (b *browser) wantNames(want ...string) {
	b.t.Helper()
	found := map[string]bool{}
	for _, n := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := unquoted(n.Role), unquoted(n.Name)
		switch role {
		case "heading", "link", "image", "region", "navigation", "RootWebArea":
			if name == "" {
				b.t.Errorf("a %s has no name", role)
			}
		}
		found[strings.TrimSpace(role+" "+name)] = true
	}
	for _, w := range want {
		if !found[w] {
			b.t.Errorf("the accessibility tree has no %q", w)
		}
	}
}

func unquoted(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// wantContrast fails the test for a text whose colour is too close to what is
// behind it (WCAG AA: 4.5, and 3 for large text).
func (b *browser) wantContrast() {
	b.t.Helper()
	for _, bad := range ask[[]string](b, contrastScript) {
		b.t.Errorf("contrast %s", bad)
	}
}

const contrastScript = `(() => {
	const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.offsetParent || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
		const style = getComputedStyle(e), size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		const [a, z] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (z + 0.05);
		if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + " of " + e.tagName + "." + e.className + ": " + e.innerText.slice(0, 40));
	}
	return bad;
})()`

// wantNoProblems fails the test for what the console complained of.
func (b *browser) wantNoProblems() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("console: %s", p)
	}
	b.problems = nil
}

// picture writes what a tall window shows of the page.
func (b *browser) picture(path string) {
	b.t.Helper()
	b.window(ask[int64](b, `innerWidth`), 1240)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
