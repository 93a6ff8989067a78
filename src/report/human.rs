//! The human-readable report: cases as they finish, problems again at the end, and a line of counts. The text is
//! styled; callers that write to a file or a pipe remove the styles.

use std::{fmt::Write as _, time::Duration};

use anstyle::{AnsiColor, Style};

use super::{
    CaseStatus, Level,
    failures::{Failures, failures},
    groups::{Group, groups},
};
use crate::run::{Case, CaseVerdict, Outcome, SuiteRun, source_map};
use kyvtest_go_compat::{
    diagnostic::{Diagnostic, Sources, render},
    text::shell::quoted,
};
use kyvtest_model::verdict::DivergenceClass;

/// The options of the human-readable report.
#[derive(Debug, Clone, Copy)]
pub struct HumanOptions<'l> {
    /// The cases to show.
    pub level: Level,
    /// Whether excerpts of files are in colour; everything else is always styled.
    pub color: bool,
    /// Whether the traces of the engines are shown.
    pub verbose: bool,
    /// Whether to show every failure and divergence in full, instead of a few cases of each policy and cause.
    pub details: bool,
    /// Whether commands name the directories of suites, as `kyverno test` requires, instead of the test files.
    pub directories: bool,
    /// The options that a command needs to run in the same cluster, each with a blank before it.
    pub replay: &'l str,
}

impl HumanOptions<'_> {
    /// Whether to group similar cases.
    fn groups(self) -> bool {
        !self.details && !self.verbose
    }
}

/// The number of lines of failures shown in full; after that, each group has three lines.
const LINES: usize = 40;

/// How many groups of failures are shown.
const GROUPS: usize = 16;

/// How much of a run's failures has been shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown {
    lines: usize,
    groups: usize,
}

/// The cases of a suite that a level shows, failures first. Divergences come at the end of a run, see [`divergences`].
/// `shown` is what was shown of earlier suites.
pub fn suite(run: &SuiteRun, sources: &Sources, look: HumanOptions<'_>, shown: &mut Shown) -> String {
    let mut text = String::new();
    let listed = |policy: &str| {
        run.cases
            .iter()
            .any(|case| case.policy == policy && look.level.shows(case))
    };
    for (policy, note) in run.notes.iter().filter(|(policy, _)| look.verbose && listed(policy)) {
        let _ = writeln!(
            text,
            "note: {} :: {}: {}: {}",
            visible(&run.path),
            visible(policy),
            note.as_str(),
            note.text()
        );
    }
    let listed = run.cases.iter().filter(|case| look.level.shows(case));
    let mut listed: Vec<&Case> = listed
        .filter(|case| CaseStatus::of(case) != CaseStatus::Diverge)
        .collect();
    listed.sort_by_key(|case| CaseStatus::of(case).rank());
    if look.groups() && look.level >= Level::Fail {
        listed.retain(|case| CaseStatus::of(case).rank() > 0);
        for group in failures(run) {
            text.push_str(&failed(run, &group, sources, look, shown));
        }
    }
    for case in listed {
        full(run, case, sources, look, &mut text);
    }
    text.push_str(&super::analysis::proofs_human(run));
    text
}

/// A group of failures: the first in full if there is room, the others by name.
fn failed(
    run: &SuiteRun,
    group: &Failures<'_>,
    sources: &Sources,
    look: HumanOptions<'_>,
    shown: &mut Shown,
) -> String {
    let mut text = String::new();
    shown.groups += 1;
    if shown.groups > GROUPS {
        return text;
    }
    if shown.lines < LINES {
        full(run, group.first, sources, look, &mut text);
        shown.lines += text.lines().count();
    } else {
        let _ = writeln!(text, "{}", line(run, group.first));
        let first = group.first.findings.first();
        let cause = first.map_or(group.first.reason.as_str(), |finding| finding.message.as_str());
        let code = first.map(|finding| format!("[{}]", finding.code)).unwrap_or_default();
        let help = first.and_then(|finding| finding.help.first());
        let help = help.map(|help| format!("; {help}")).unwrap_or_default();
        let _ = writeln!(text, "    error{code}: {}{}", visible(cause), visible(&help));
    }
    if !group.others.is_empty() {
        let names: Vec<String> = group.others.iter().take(CASES).map(|case| case.subject()).collect();
        let more = group.others.len().saturating_sub(CASES);
        let more = if more == 0 {
            String::new()
        } else {
            format!(", {more} more")
        };
        let count = group.others.len();
        let _ = writeln!(text, "    and {count} more: {}{more}", visible(&names.join(", ")));
    }
    text
}

/// The next steps after a run with problems: how to see omitted cases, and how to fix or accept the rest.
pub fn next_steps(runs: &[super::Run<'_>], look: HumanOptions<'_>) -> String {
    let mut text = String::new();
    if look.level < Level::Fail || !look.groups() {
        return text;
    }
    let groups_of = || runs.iter().flat_map(|(run, _)| failures(run));
    let failing: usize = groups_of().map(|group| 1 + group.others.len()).sum();
    let causes = groups(runs.iter().map(|(run, _)| *run));
    let diverging = if look.level < Level::Diverge {
        0
    } else {
        causes.iter().map(Group::len).sum()
    };
    let is_short = groups_of().count() < failing || groups_of().count() > GROUPS || diverging > 0;
    if is_short {
        let counts = [
            (failing, "failing case", "failing cases"),
            (diverging, "divergence", "divergences"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, one, many)| counted(count, one, many)).collect();
        let _ = writeln!(text, "next: `--details` shows {} in full", counts.join(" and "));
    }
    if let (Some(first), true) = (causes.first(), diverging > 0) {
        let code = first.code.unwrap_or(first.class.as_str());
        text.push_str("next: `kyvtest convert --repair POLICY` writes a native policy that decides as Kyverno does\n");
        let _ = writeln!(
            text,
            "next: `--update --accept-divergence {code} --reason TEXT` accepts divergences, `--engine kyverno` ignores them"
        );
    }
    text
}

/// Everything about one case.
fn full(run: &SuiteRun, case: &Case, sources: &Sources, look: HumanOptions<'_>, text: &mut String) {
    let _ = writeln!(text, "{}", line(run, case));
    let mut indented = |more: &str, clean: bool| {
        for line in more.lines() {
            let line = if clean { visible(line) } else { line.to_owned() };
            let _ = writeln!(text, "{}", format!("    {line}").trim_end());
        }
    };
    indented(&findings(case, |_| String::new()), true);
    for finding in &case.findings {
        let mut finding = finding.clone();
        if let (Some(place), true) = (run.source_map.policy(case), case.kyverno.is_some()) {
            finding = finding.with_label(place, "this rule produced the result");
        }
        // Excerpts are already sanitised, and may have their own colours.
        indented(&render::full(&finding, sources, look.color), false);
    }
    let mut more = String::new();
    answers(case, look.verbose, &mut more);
    if let Some(data) = &case.data {
        let _ = writeln!(more, "data:     {data}");
    }
    if case.mocked {
        more.push_str("mocked:   the sidecar replaced a registry\n");
    }
    for (engine, lines) in [("kyverno", &case.trace.kyverno), ("vap", &case.trace.vap)] {
        if !lines.is_empty() && look.verbose {
            let _ = writeln!(more, "{engine} trace:");
            for line in lines.iter().flat_map(|line| line.lines()) {
                let _ = writeln!(more, "  {line}");
            }
        }
    }
    if Level::Diverge.shows(case) || look.verbose {
        where_from(run, case, sources, look, &mut more);
    }
    indented(&more, true);
}

/// The maximum number of policies listed in a group of divergences.
const POLICIES: usize = 8;

/// The maximum number of cases named in a group.
const CASES: usize = 3;

/// The divergences of a run: one block per cause with three cases of each policy, or all of them in full.
pub fn divergences(runs: &[super::Run<'_>], look: HumanOptions<'_>) -> String {
    let mut text = String::new();
    if look.level < Level::Diverge {
        return text;
    }
    if !look.groups() {
        for (run, sources) in runs {
            for case in run
                .cases
                .iter()
                .filter(|case| CaseStatus::of(case) == CaseStatus::Diverge)
            {
                full(run, case, sources, look, &mut text);
            }
        }
        return text;
    }
    for group in groups(runs.iter().map(|(run, _)| *run)) {
        text.push_str(&block(&group, look));
    }
    text
}

/// One cause: how often, why, where, and the next step.
fn block(group: &Group<'_>, look: HumanOptions<'_>) -> String {
    let style = AnsiColor::Magenta.on_default().bold();
    let code = group.code.map(|code| format!(" [{code}]")).unwrap_or_default();
    let mut text = format!(
        "{style}{:<11}{style:#} {}{code}: {} of {}\n",
        "DIVERGE",
        group.class.as_str(),
        counted(group.len(), "case", "cases"),
        counted(group.policies.len(), "policy", "policies"),
    );
    for line in group.cause.lines() {
        let _ = writeln!(text, "    {}", visible(line));
    }
    for (policy, cases) in group.policies.iter().take(POLICIES) {
        let number = if cases.len() == 1 {
            String::new()
        } else {
            format!(" ({})", cases.len())
        };
        let titles: Vec<String> = cases.iter().take(CASES).map(|(_, case)| case.subject()).collect();
        let more = match cases.len().saturating_sub(CASES) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        let _ = writeln!(
            text,
            "    {}{number}: {}{more}",
            visible(policy),
            visible(&titles.join(", "))
        );
    }
    let more = group.policies.len().saturating_sub(POLICIES);
    if more > 0 {
        let _ = writeln!(text, "    and {}", counted(more, "more policy", "more policies"));
    }
    if let Some((run, case)) = group.policies.first().and_then(|(_, cases)| cases.first()) {
        text.push_str("    ");
        replay(run, case, look, &mut text);
    }
    if let Some(code) = group.code {
        let _ = writeln!(text, "    explain:  kyvtest explain {code}");
    }
    text
}

/// `1 case`, `1204 cases`.
fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", number, if number == 1 { one } else { many })
}

/// The command that reruns a case.
fn replay(run: &SuiteRun, case: &Case, look: HumanOptions<'_>, text: &mut String) {
    let id = source_map::id(run, case);
    let path = match run.path.rsplit_once('/') {
        Some((directory, _)) if look.directories => directory,
        _ => run.path.as_str(),
    };
    let path = quoted(path);
    let _ = writeln!(text, "replay:   kyvtest run {path}{} -E 'id({id})' -v", look.replay);
}

/// The cases of a whole run that a level shows, one line each; failures with the same cause share one.
pub fn list<'r>(runs: impl IntoIterator<Item = &'r SuiteRun>, level: Level, look: HumanOptions<'_>) -> String {
    let mut text = String::new();
    let mut left_out = 0;
    let mut shown = 0;
    for run in runs {
        let groups = if look.groups() && level >= Level::Fail {
            failures(run)
        } else {
            Vec::new()
        };
        for group in &groups {
            shown += 1;
            if shown > GROUPS {
                left_out += 1 + group.others.len();
                continue;
            }
            let more = match group.others.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = writeln!(text, "{}{more}", line(run, group.first));
        }
        let others = run.cases.iter().filter(|case| level.shows(case));
        for case in others.filter(|case| groups.is_empty() || CaseStatus::of(case).rank() > 0) {
            let _ = writeln!(text, "{}", line(run, case));
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "and {}",
            counted(left_out, "more failing case", "more failing cases")
        );
    }
    text
}

/// `STATUS  time  suite :: policy/rule  Kind namespace/name [OPERATION]`
fn line(run: &SuiteRun, case: &Case) -> String {
    let (word, style) = word(case);
    let time = case.elapsed.map(|elapsed| format!("{:>7} ", duration(elapsed)));
    format!(
        "{style}{word:<11}{style:#} {}{} :: {}",
        time.unwrap_or_default(),
        visible(&run.path),
        visible(&case.title())
    )
}

/// The locations of a case's parts, and the command that reruns it.
fn where_from(run: &SuiteRun, case: &Case, sources: &Sources, look: HumanOptions<'_>, text: &mut String) {
    for (name, span) in [
        ("row:", case.place),
        ("policy:", run.source_map.policy(case)),
        ("resource:", run.source_map.resource(case)),
    ] {
        if let (Some(file), Some(line), Some(column)) = super::place(span, sources) {
            let _ = writeln!(text, "{name:<9} {file}:{line}:{column}");
        }
    }
    if !look.verbose {
        replay(run, case, look, text);
    }
}

/// Explains the outcome of a case: the expectation with its location, and the verdicts.
pub(super) fn details(case: &Case, sources: &Sources) -> String {
    let mut text = findings(case, |finding| {
        let mut text = format!("{}\n", render::concise(finding, sources));
        let notes = finding.notes.iter().map(|note| ("note", note));
        for (word, line) in notes.chain(finding.help.iter().map(|help| ("help", help))) {
            let _ = writeln!(text, "  {word}: {line}");
        }
        text
    });
    answers(case, false, &mut text);
    text
}

/// The name of a case and the unmet expectations.
fn findings(case: &Case, written: impl Fn(&Diagnostic) -> String) -> String {
    let mut text = String::new();
    if let Some(name) = &case.name {
        let _ = writeln!(text, "{name}");
    }
    if case.findings.is_empty() && !case.reason.is_empty() {
        let _ = writeln!(text, "{}", case.reason);
    }
    for finding in &case.findings {
        text.push_str(&written(finding));
    }
    text
}

/// The expected result and both verdicts, if relevant or if `all`.
fn answers(case: &Case, all: bool, text: &mut String) {
    let looked_at = all || case.outcome.fails() || case.diverges();
    if let Some(answer) = case.kyverno.as_ref().filter(|_| looked_at) {
        if !case.expected.is_empty() {
            let _ = writeln!(text, "expected: {}", case.expected);
        }
        push_verdict(text, "kyverno:", answer);
    }
    if let Some(native) = case
        .vap
        .as_ref()
        .filter(|_| all || looked_at && case.divergence.is_some())
    {
        push_verdict(text, "vap:", &native.answer);
    }
    let missing = |class: DivergenceClass| class == DivergenceClass::NotConvertible && !all;
    if let Some(divergence) = case.divergence.as_ref().filter(|found| !missing(found.class)) {
        let code = divergence.code.as_deref().map(|code| format!(" [{code}]"));
        let (class, cause) = (divergence.class.as_str(), &divergence.cause);
        let _ = writeln!(text, "diverges: {class}{}: {cause}", code.unwrap_or_default());
        if let Some(accepted) = &case.accepted {
            let _ = writeln!(text, "accepted: {accepted}");
        }
    }
}

/// The verdict of one side.
fn push_verdict(text: &mut String, who: &str, answer: &CaseVerdict) {
    let _ = writeln!(text, "{who:<9} {} ({})", answer.status, answer.effect);
    for line in answer.message.lines() {
        let _ = writeln!(text, "          {line}");
    }
}

/// The closing line: `run 1204 · pass 1190 · fail 8 · diverge 4 (3 weaker, 1 stricter) · skip 2 · clock
/// 2026-11-16T00:00:00Z · 0.21s`. Every case is counted once: one that fails is not counted as diverging.
pub fn summary<'r>(runs: impl IntoIterator<Item = &'r SuiteRun>, elapsed: Option<Duration>, now: &str) -> String {
    let runs: Vec<&SuiteRun> = runs.into_iter().collect();
    let cases: Vec<(CaseStatus, &Case)> = runs
        .iter()
        .flat_map(|run| &run.cases)
        .map(|case| (CaseStatus::of(case), case))
        .collect();
    let count = |wanted: CaseStatus| cases.iter().filter(|(standing, _)| *standing == wanted).count();
    let mut text = format!("run {} · pass {}", cases.len(), count(CaseStatus::Pass));
    for (standing, name) in [
        (CaseStatus::Fail, "fail"),
        (CaseStatus::Error, "error"),
        (CaseStatus::Unmatched, "unmatched"),
        (CaseStatus::Diverge, "diverge"),
        (CaseStatus::NeedsRegistry, "needs registry"),
        (CaseStatus::Unsupported, "unsupported"),
        (CaseStatus::Skip, "skip"),
    ] {
        let count = count(standing);
        if count == 0 {
            continue;
        }
        let _ = write!(text, " · {name} {count}");
        if standing == CaseStatus::Diverge {
            let classes = DivergenceClass::ALL.into_iter().filter_map(|class| {
                let same = |(standing, case): &&(CaseStatus, &Case)| {
                    *standing == CaseStatus::Diverge
                        && case.divergence.as_ref().is_some_and(|found| found.class == class)
                };
                let count = cases.iter().filter(same).count();
                (count > 0).then(|| format!("{} {}", count, class.as_str()))
            });
            let _ = write!(text, " ({})", classes.collect::<Vec<_>>().join(", "));
        }
    }
    let differs = |case: &Case| case.divergence.as_ref().is_some_and(|found| found.class.fails()) && !case.diverges();
    // An expired one is a failure, no longer accepted.
    let accepted = cases
        .iter()
        .filter(|(_, case)| differs(case) && !case.outcome.fails())
        .count();
    if accepted > 0 {
        let plural = if accepted == 1 { "" } else { "s" };
        let _ = write!(text, " · {accepted} accepted difference{plural}");
    }
    let broken = runs.iter().filter(|run| run.is_broken()).count();
    if broken > 0 {
        let plural = if broken == 1 { "" } else { "s" };
        let _ = write!(text, " · {broken} broken suite{plural}");
    }
    let _ = write!(text, " · clock {now}");
    if let Some(elapsed) = elapsed {
        let _ = write!(text, " · {:.2}s", elapsed.as_secs_f64());
    }
    text.push('\n');
    text
}

/// A short duration: `12µs`, `3.4ms`, `1.20s`.
fn duration(elapsed: Duration) -> String {
    let micros = elapsed.as_micros();
    if micros < 1_000 {
        format!("{micros}µs")
    } else if micros < 1_000_000 {
        format!("{:.1}ms", elapsed.as_secs_f64() * 1e3)
    } else {
        format!("{:.2}s", elapsed.as_secs_f64())
    }
}

fn word(case: &Case) -> (&'static str, Style) {
    let bad = AnsiColor::Red.on_default().bold();
    let odd = AnsiColor::Yellow.on_default().bold();
    match case.outcome {
        Outcome::Pass if case.diverges() => ("DIVERGE", AnsiColor::Magenta.on_default().bold()),
        Outcome::Pass => ("PASS", AnsiColor::Green.on_default().bold()),
        Outcome::Fail => ("FAIL", bad),
        Outcome::Error => ("ERROR", bad),
        Outcome::Unmatched => ("UNMATCHED", bad),
        Outcome::NeedsRegistry => ("NEEDS-REGISTRY", odd),
        Outcome::Unsupported => ("UNSUPPORTED", odd),
        Outcome::Skip => ("SKIP", odd),
        Outcome::Silent => ("SILENT", odd),
    }
}

/// A line without terminal control characters.
fn visible(line: &str) -> String {
    let clean = |c: char| {
        if c != '\t' && render::misleading(c) {
            '\u{fffd}'
        } else {
            c
        }
    };
    line.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(duration(Duration::from_micros(12)), "12µs");
        assert_eq!(duration(Duration::from_micros(3_412)), "3.4ms");
        assert_eq!(duration(Duration::from_millis(1_200)), "1.20s");
    }
}
