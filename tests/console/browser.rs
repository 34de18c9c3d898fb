//! Headless Chromium, by its WebDriver.

use serde_json::{Value, json};
use std::{path::Path, process::Stdio, time::Duration};
use thirtyfour::{TypingData, prelude::*};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// The time after which a wait fails.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(50);

/// The views, and an address of each.
pub(crate) const VIEWS: [(&str, &str); 9] = [
    ("now", "#/now"),
    ("map", "#/map"),
    ("stuck", "#/stuck"),
    ("trace", "#/trace/p-00000/production/workloaddeployments/web-0"),
    ("cells", "#/cell"),
    ("cell", "#/cell/dfw-1"),
    ("projects", "#/project"),
    ("project", "#/project/p-00000"),
    ("journal", "#/journal"),
];

/// Records what the page's policy refuses, before a script of the page runs.
const WATCH: &str = "window.refused = []; document.addEventListener('securitypolicyviolation', \
    (event) => window.refused.push(`${event.violatedDirective} ${event.blockedURI}`)); \
    window.tasks = []; new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => \
    [e.startTime, e.duration]))).observe({type: 'longtask', buffered: true});";

/// A browser with one page, and the driver that ends with it.
pub(crate) struct Browser {
    pub(crate) driver: WebDriver,
    _chromedriver: Child,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let program = std::env::var("FEDGATE_CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
        let mut chromedriver = Command::new(&program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; install chromium-driver"));
        let mut lines = BufReader::new(chromedriver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("the driver's port");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        // Its later lines are not waited for.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let mut capabilities = DesiredCapabilities::chrome();
        for argument in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ] {
            capabilities.add_arg(argument).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities)
            .await
            .unwrap();
        let browser = Self {
            driver,
            _chromedriver: chromedriver,
        };
        let watch = json!({"source": WATCH});
        browser.cdp("Page.addScriptToEvaluateOnNewDocument", watch).await;
        browser.size(1280, 900, 1.0).await;
        browser
    }

    /// Sends a command of the DevTools protocol.
    pub(crate) async fn cdp(&self, method: &str, parameters: Value) -> Value {
        self.driver.cdp().send_raw(method, parameters).await.unwrap()
    }

    /// Gives the page this size in CSS pixels.
    pub(crate) async fn size(&self, width: u32, height: u32, scale: f64) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.cdp("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Makes the system's colour scheme `light` or `dark`.
    pub(crate) async fn scheme(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.cdp("Emulation.setEmulatedMedia", features).await;
    }

    pub(crate) async fn goto(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    /// Waits for an element.
    pub(crate) async fn wait(&self, css: &str) -> WebElement {
        let query = self.driver.query(By::Css(css)).wait(PATIENCE, INTERVAL);
        match query.first().await {
            Ok(element) => element,
            Err(error) => {
                let page = self.driver.source().await.unwrap_or_default();
                panic!("waited in vain for {css}: {error}\n{page}")
            }
        }
    }

    /// Waits until no element is left.
    pub(crate) async fn gone(&self, css: &str) {
        let query = self.driver.query(By::Css(css)).wait(PATIENCE, INTERVAL);
        assert!(query.not_exists().await.unwrap(), "{css} stays");
    }

    /// Waits until a view is there, read and live.
    pub(crate) async fn shows(&self, view: &str) {
        self.wait(&format!(
            "body[data-connection=live] main[data-view={view}]:not([aria-busy]) h1"
        ))
        .await;
    }

    /// Opens a view by its address.
    pub(crate) async fn open(&self, console: &str, address: &str) {
        self.goto(&format!("{console}{address}")).await;
        let view = address.trim_start_matches("#/").split(['/', '?']).next().unwrap();
        self.shows(view).await;
    }

    /// Types keys where the focus is.
    pub(crate) async fn keys(&self, keys: impl Into<TypingData>) {
        let chain = self.driver.action_chain();
        chain.send_keys(keys).perform().await.unwrap();
    }

    /// The value of a JavaScript expression.
    pub(crate) async fn js(&self, expression: &str) -> Value {
        let result = self.driver.execute(format!("return {expression}"), vec![]).await;
        result.unwrap().json().clone()
    }

    pub(crate) async fn text(&self, expression: &str) -> String {
        self.js(expression).await.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn screenshot(&self, path: &Path) {
        self.driver.screenshot(path).await.unwrap();
    }

    pub(crate) async fn quit(self) {
        self.driver.quit().await.unwrap();
    }
}
