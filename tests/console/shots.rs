//! Each view in both schemes, wide and narrow, full and empty: nothing is cut off, and all text is legible.

use super::{
    browser::{Browser, VIEWS},
    fleet::Fleet,
    results,
};
use serde_json::{Value, json};

/// Width, height, pixels per CSS pixel, and the name of a size. The third is 1280 at a zoom of 200 %.
const SIZES: [(u32, u32, f64, &str); 3] = [
    (1280, 900, 1.0, "1280"),
    (360, 800, 1.0, "360"),
    (640, 450, 2.0, "200%"),
];

/// Elements that are wider than the page or whose text is cut without a sign.
const CUT: &str = "(() => { const cut = []; const wide = document.documentElement.clientWidth; \
    if (document.documentElement.scrollWidth > wide) cut.push(`the page is ${document.documentElement.scrollWidth} wide`); \
    for (const e of document.querySelectorAll('body *')) { \
      const s = getComputedStyle(e); \
      if (e.closest('svg, .hidden, [hidden], dialog:not([open]), .skip') || s.visibility === 'hidden') continue; \
      const cuts = s.overflowX === 'hidden' || s.overflowX === 'clip'; \
      if (cuts && s.textOverflow !== 'ellipsis' && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1) \
        cut.push(`${e.tagName}.${e.className} ${e.scrollWidth} in ${e.clientWidth}: ${e.textContent.slice(0, 60)}`); \
    } return cut; })()";

/// Texts with too little contrast.
const DIM: &str = "(() => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1; \
    const paint = canvas.getContext('2d', {willReadFrequently: true}); \
    const rgba = (color) => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1); \
      const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; }; \
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1); \
    const behind = (e) => { const layers = []; \
      for (let at = e; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); \
        layers.push(c); if (c[3] === 1) break; } \
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); }; \
    const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; \
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
    const dim = []; let worst = 21; \
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
    while (walk.nextNode()) { const text = walk.currentNode.textContent.trim(); const e = walk.currentNode.parentElement; \
      if (!text || e.closest('.hidden, [hidden], dialog:not([open]), script, noscript, title, .skip')) continue; \
      const s = getComputedStyle(e); const box = e.getBoundingClientRect(); \
      if (box.width === 0 || s.visibility === 'hidden') continue; \
      const below = behind(e); const top = over(rgba(e.closest('svg') ? s.fill : s.color), below); \
      const [a, b] = [light(top), light(below)]; const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); \
      const size = parseFloat(s.fontSize); const large = size >= 24 || size >= 18.66 && Number(s.fontWeight) >= 700; \
      worst = Math.min(worst, ratio); \
      if (ratio < (large ? 3 : 4.5)) dim.push(`${ratio.toFixed(2)} ${e.tagName}.${e.className}: ${text.slice(0, 40)}`); } \
    return {dim, worst}; })()";

async fn shots(fleet: &Fleet, fill: &str) -> Vec<String> {
    let browser = Browser::start().await;
    let (mut faults, mut names) = (Vec::new(), Vec::new());
    for scheme in ["light", "dark"] {
        browser.scheme(scheme).await;
        for (width, height, scale, size) in SIZES {
            browser.size(width, height, scale).await;
            for (view, address) in VIEWS {
                if fill == "empty" && ["trace", "cell", "project"].contains(&view) {
                    continue;
                }
                browser.goto("about:blank").await;
                browser.open(&fleet.url(), address).await;
                let place = format!("{view} {scheme} {size} {fill}");
                let cut = browser.js(CUT).await;
                for words in cut.as_array().unwrap() {
                    faults.push(format!("{place}: cut off: {words}"));
                }
                let contrast = browser.js(DIM).await;
                for words in contrast["dim"].as_array().unwrap() {
                    faults.push(format!("{place}: dim: {words}"));
                }
                if scale > 1.0 {
                    continue;
                }
                let whole = browser.js("document.documentElement.scrollHeight").await;
                let whole = u32::try_from(whole.as_u64().unwrap())
                    .unwrap()
                    .clamp(height, 4_000);
                browser.size(width, whole, scale).await;
                let name = format!("{view}-{fill}-{scheme}-{size}.png");
                browser.screenshot(&results().join(&name)).await;
                browser.size(width, height, scale).await;
                names.push(json!({"file": name, "worst contrast": contrast["worst"]}));
            }
        }
    }
    browser.quit().await;
    let list = results().join(format!("screenshots-{fill}.json"));
    std::fs::write(list, format!("{:#}\n", Value::Array(names))).unwrap();
    faults
}

#[tokio::test(flavor = "multi_thread")]
async fn full_views_are_whole_and_legible_in_both_schemes() {
    let fleet = Fleet::full("shots").await;
    let faults = shots(&fleet, "full").await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_views_are_whole_and_legible_in_both_schemes() {
    let fleet = Fleet::empty("bare", 0).await;
    let faults = shots(&fleet, "empty").await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
