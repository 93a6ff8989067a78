//! The HTML report in a real browser: it loads without console messages, and its filter box filters.
//!
//! Runs if Chromium is found: the program that `KYVTEST_CHROMIUM` names, or one on the path.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

fn chromium() -> Option<PathBuf> {
    if let Some(named) = env::var_os("KYVTEST_CHROMIUM") {
        return Some(named.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let directories: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let candidates = names
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("html");
    fs::create_dir_all(&directory).expect("a scratch folder");
    directory.join(name)
}

/// The page of the run with each outcome.
fn page() -> PathBuf {
    let path = scratch("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(["run", "fixtures/report", "fixtures/run/hostile", "-o", "html"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    fs::write(&path, output.stdout).expect("a page");
    path
}

/// The DOM of a page in the browser, and the console messages.
fn shown(browser: &Path, page: &Path, fragment: &str) -> (String, Vec<String>) {
    shown_after(browser, page, fragment, "--virtual-time-budget=2000")
}

/// Like [`shown`], with another clock: in virtual time, nothing takes any time.
fn shown_after(browser: &Path, page: &Path, fragment: &str, clock: &str) -> (String, Vec<String>) {
    let profile = scratch(&format!("profile{clock}"));
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args([clock, "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}{fragment}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    (String::from_utf8_lossy(&output.stdout).into_owned(), console.collect())
}

/// The number of visible cases.
fn visible(dom: &str) -> usize {
    let cases = dom.split("<details ").skip(1);
    cases
        .filter(|case| !case.split('>').next().unwrap_or_default().contains("hidden"))
        .count()
}

#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium");
        return;
    };
    let page = page();
    let (dom, console) = shown(&browser, &page, "");
    assert!(console.is_empty(), "{console:#?}");
    let all = visible(&dom);
    assert!(all > 12 && dom.contains(&format!("{all} cases</output>")), "{all}");
    let count = |fragment: &str| {
        let (dom, console) = shown(&browser, &page, fragment);
        assert!(console.is_empty(), "{console:#?}");
        let count = visible(&dom);
        assert!(dom.contains(&format!("{count} cases</output>")), "{fragment}");
        count
    };
    assert_eq!(count("#q=no-host-network"), 3);
    assert_eq!(count("#q=no-host-network%20deployment"), 2);
    assert_eq!(count("#q=no-host-network&problems"), 2);
    assert_eq!(count("#q=there-is-no-such-case"), 0);
    // An outcome is an attribute, not a word in the text.
    let failing = dom.matches("data-outcome=\"fail\"").count();
    assert!(failing > 1 && dom.matches("fail").count() > 2 * failing);
    assert_eq!(count("#outcome=fail"), failing);
    let id = dom
        .split("<details ")
        .nth(1)
        .and_then(|case| case.split("id=\"").nth(1))
        .expect("an id");
    let id = id.split('"').next().expect("an id");
    let (opened, _) = shown(&browser, &page, &format!("#{id}"));
    assert!(opened.contains(&format!("id=\"{id}\" open")), "{id}");
    // The test would notice a broken page.
    let broken = scratch("broken.html");
    let text = fs::read_to_string(&page).expect("a page");
    fs::write(&broken, text.replace("\"use strict\";", "\"use strict\"; nobody();")).expect("a page");
    let (dom, console) = shown(&browser, &broken, "#q=no-host-network");
    assert!(!console.is_empty() && visible(&dom) == all);
}

/// The maximum time of a filter on a long page, in milliseconds, on a loaded machine.
const PATIENCE: f64 = 2_000.0;

#[expect(clippy::print_stderr, reason = "for the reader of a test run")]
#[test]
fn a_page_of_five_thousand_cases_stays_fast() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium");
        return;
    };
    let directory = scratch("many");
    fs::create_dir_all(&directory).expect("a folder");
    let resources = (0..5_000).map(|number| {
        let labels = if number % 3 == 0 { "" } else { ", labels: {owner: me}" };
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}{labels}}}\n")
    });
    let resources: Vec<String> = resources.collect();
    fs::write(directory.join("resources.yaml"), resources.join("---\n")).expect("a file");
    let suite = "fixtures/first-hour/failures";
    fs::copy(format!("{suite}/policy.yaml"), directory.join("policy.yaml")).expect("a file");
    let test = fs::read_to_string(format!("{suite}/kyverno-test.yaml")).expect("a suite");
    let (head, _) = test.split_once("results:").expect("rows");
    let row = "results:\n  - {policy: owners, rule: check-owner, kind: ConfigMap, result: pass}\n";
    fs::write(directory.join("kyverno-test.yaml"), format!("{head}{row}")).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_kyvtest"))
        .env_clear()
        .args(["run".as_ref(), directory.as_os_str(), "-o".as_ref(), "html".as_ref()])
        .output()
        .expect("the binary starts");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    // The page measures itself: one filter for each text that is typed.
    let measured = r#"<script>addEventListener("load", () => {
  let longest = 0;
  for (const text of ["m", "m1", "m12 owners", "", "none"]) {
    const begin = performance.now();
    filter.value = text;
    apply();
    document.body.offsetHeight;
    longest = Math.max(longest, performance.now() - begin);
  }
  document.title = `longest=${longest};`;
});</script></body>"#;
    let path = scratch("many.html");
    fs::write(&path, page.replace("</body>", measured)).expect("a page");
    let (dom, console) = shown_after(&browser, &path, "", "--timeout=30000");
    assert!(console.is_empty(), "{console:#?}");
    assert_eq!(dom.matches("<details ").count(), 5_000);
    let longest = dom.split("longest=").nth(1).and_then(|rest| rest.split(';').next());
    let longest: f64 = longest.and_then(|text| text.parse().ok()).expect("a time");
    assert!(longest > 0.0 && longest < PATIENCE, "{longest} ms");
}
