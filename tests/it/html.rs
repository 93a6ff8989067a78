//! The HTML report in a real browser: it loads without a word on the console, and its filter box filters.
//!
//! Runs where Chromium is found: the program that `KYVTEST_CHROMIUM` names, or one on the path.

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
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("html");
    fs::create_dir_all(&folder).expect("a scratch folder");
    folder.join(name)
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

/// What the browser makes of a page, and what stands on the console.
fn shown(browser: &Path, page: &Path, fragment: &str) -> (String, Vec<String>) {
    let profile = scratch("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}{fragment}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    (String::from_utf8_lossy(&output.stdout).into_owned(), console.collect())
}

/// How many cases are to be seen.
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
    // An outcome is not a word somewhere in the text.
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
    // A broken page would be noticed.
    let broken = scratch("broken.html");
    let text = fs::read_to_string(&page).expect("a page");
    fs::write(&broken, text.replace("\"use strict\";", "\"use strict\"; nobody();")).expect("a page");
    let (dom, console) = shown(&browser, &broken, "#q=no-host-network");
    assert!(!console.is_empty() && visible(&dom) == all);
}
