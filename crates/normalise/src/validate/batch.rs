//! Jobs and cron jobs.
//!
//! Upstream counterpart: `pkg/apis/batch/validation/validation.go`, the schedules of `github.com/robfig/cron/v3`.

use kyvtest_go_compat::text::time::Timestamp;

use super::{Checker, Path, TypeCheck, format, meta, network};
use crate::{Reason, node::Node};

pub(super) fn check(name: &str) -> Option<TypeCheck> {
    Some(match name {
        "batch.v1.Job" => job,
        "batch.v1.CronJob" => cron_job,
        "batch.v1.CronJobSpec" => cron_job_spec,
        "batch.v1.JobTemplateSpec" => job_template,
        _ => return None,
    })
}

fn job(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    generated_selector(checker, node, spec, path);
    let path_of_spec = path.field("spec");
    job_spec(checker, spec, &path_of_spec);
    let empty = Node::EMPTY;
    let labels = spec.at(&["template", "metadata", "labels"]).unwrap_or(&empty);
    let matches = if let Some(selector) = spec.get("selector") {
        meta::selector(checker, selector, &path_of_spec.field("selector"));
        meta::matches(selector, labels)
    } else {
        checker.required(&path_of_spec.field("selector"), "");
        Some(false)
    };
    if matches == Some(false) {
        let at = path_of_spec.field("template");
        checker.invalid(
            &at.field("metadata").field("labels"),
            "",
            "`selector` does not match template `labels`",
        );
    }
    if let (Some(completions), "Indexed") = (spec.int("completions"), spec.str("completionMode"))
        && completions > 0
    {
        let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
        if !format::label(&format!("{name}-{}", completions - 1)).is_empty() {
            let at = path.field("metadata");
            checker.invalid(
                &at.field("name"),
                name,
                "will not able to create pod with invalid DNS label",
            );
        }
    }
}

/// A selector that is not the user's must be the one that the server generates.
fn generated_selector(checker: &mut Checker<'_>, node: &Node<'_>, spec: &Node<'_>, path: &Path<'_>) {
    if spec.bool("manualSelector") || !spec.has("selector") {
        return;
    }
    let metadata = node.get("metadata");
    let (name, id) = metadata.map_or(("", ""), |metadata| (metadata.str("name"), metadata.str("uid")));
    let at = path.field("spec");
    let labels = at.field("template");
    let labels = labels.field("metadata");
    let labels = labels.field("labels");
    let generated = [
        ("controller-uid", id),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", id),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, wanted) in generated {
        match spec.at(&["template", "metadata", "labels", key]).map(Node::as_str) {
            None => checker.required(&labels.key(key), "must be set"),
            Some(own) if own != wanted => checker.invalid(&labels.key(key), own, &format!("must be '{wanted}'")),
            Some(_) => {}
        }
    }
    let mut expected = Node::EMPTY;
    for (key, wanted) in generated {
        expected.set(key, wanted.to_owned());
    }
    let selector = spec.get("selector");
    if selector.and_then(|selector| meta::matches(selector, &expected)) == Some(false) {
        checker.invalid(&at.field("selector"), "", "`selector` not auto-generated");
    }
}

/// Checks the common part of the specs of jobs and cron jobs.
fn job_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if let Some(value) = node.int(field).filter(|value| *value < 0) {
            checker.invalid(
                &path.field(field),
                &value.to_string(),
                "must be greater than or equal to 0",
            );
        }
    }
    if node.has("maxFailedIndexes") && !node.has("backoffLimitPerIndex") {
        checker.required(
            &path.field("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        );
    }
    if let Some(manager) = node.get("managedBy").map(Node::as_str) {
        network::domain_path(checker, manager, &path.field("managedBy"));
        if manager.len() > 63 {
            checker.fail(
                &path.field("managedBy"),
                Reason::TooLong,
                "may not be more than 63 bytes",
            );
        }
    }
    completion_mode(checker, node, path);
    if let Some(policy) = node.get("podFailurePolicy") {
        failure_policy(checker, node, policy, &path.field("podFailurePolicy"));
    }
    if let Some(policy) = node.get("successPolicy") {
        let at = path.field("successPolicy");
        if node.str("completionMode") == "Indexed" {
            success_policy(checker, node, policy, &at);
        } else {
            checker.invalid(&at, "", "requires indexed completion mode");
        }
    }
    if let Some(policy) = node.get("podReplacementPolicy").map(Node::as_str) {
        let allowed: &[&str] = if node.has("podFailurePolicy") {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        if !allowed.contains(&policy) {
            checker.unsupported(&path.field("podReplacementPolicy"), policy, allowed);
        }
    }
    if let Some(template) = node.get("template") {
        checker.object("core.v1.PodTemplateSpec", template, &path.field("template"));
    }
    let restart = node.at(&["template", "spec", "restartPolicy"]).map_or("", Node::as_str);
    let at = path.field("template");
    let at = at.field("spec");
    let at = at.field("restartPolicy");
    match restart {
        "Always" | "" => checker.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if node.has("podFailurePolicy") {
                checker.invalid(
                    &at,
                    restart,
                    "only \"Never\" is supported when podFailurePolicy is specified",
                );
            }
        }
        other => checker.unsupported(&at, other, &["Never", "OnFailure"]),
    }
}

fn completion_mode(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let (completions, failed) = (node.int("completions"), node.int("maxFailedIndexes"));
    match node.get("completionMode").map(Node::as_str) {
        Some("Indexed") => {
            if completions.is_none() {
                checker.required(&path.field("completions"), "when completion mode is Indexed");
            }
            if node.int("parallelism").is_some_and(|own| own > 100_000) {
                checker.invalid(
                    &path.field("parallelism"),
                    "",
                    "must be less than or equal to 100000 when completion mode is Indexed",
                );
            }
            if let (Some(failed), Some(completions)) = (failed, completions)
                && failed > completions
            {
                checker.invalid(
                    &path.field("maxFailedIndexes"),
                    &failed.to_string(),
                    "must be less than or equal to completions",
                );
            }
        }
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if node.has(field) {
                    checker.invalid(&path.field(field), "", "requires indexed completion mode");
                }
            }
        }
        Some(other) => checker.unsupported(&path.field("completionMode"), other, &["Indexed", "NonIndexed"]),
    }
}

fn failure_policy(checker: &mut Checker<'_>, spec: &Node<'_>, node: &Node<'_>, path: &Path<'_>) {
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    let path = path.field("rules");
    if node.list("rules").len() > 20 {
        checker.fail(&path, Reason::TooMany, "must have at most 20 items");
    }
    for (index, rule) in node.list("rules").iter().enumerate() {
        let path = path.index(index);
        let at = path.field("action");
        match rule.str("action") {
            "" => checker.required(&at, "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                checker.invalid(&at, "FailIndex", "requires the backoffLimitPerIndex to be set");
            }
            action if !ACTIONS.contains(&action) => checker.unsupported(&at, action, ACTIONS),
            _ => {}
        }
        if let Some(codes) = rule.get("onExitCodes") {
            exit_codes(checker, spec, codes, &path.field("onExitCodes"));
        }
        let conditions = rule.list("onPodConditions");
        let at = path.field("onPodConditions");
        for (index, condition) in conditions.iter().enumerate() {
            let at = at.index(index);
            checker.problems(
                &at.field("type"),
                condition.str("type"),
                &format::qualified(condition.str("type")),
            );
            match condition.str("status") {
                "" => checker.required(&at.field("status"), ""),
                "True" | "False" | "Unknown" => {}
                other => checker.unsupported(&at.field("status"), other, &["False", "True", "Unknown"]),
            }
        }
        match (rule.has("onExitCodes"), conditions.is_empty()) {
            (true, false) => checker.invalid(
                &path,
                "",
                "specifying both OnExitCodes and OnPodConditions is not supported",
            ),
            (false, true) => checker.invalid(
                &path,
                "",
                "specifying one of OnExitCodes and OnPodConditions is required",
            ),
            _ => {}
        }
    }
}

fn exit_codes(checker: &mut Checker<'_>, spec: &Node<'_>, node: &Node<'_>, path: &Path<'_>) {
    let operator = node.str("operator");
    match operator {
        "" => checker.required(&path.field("operator"), "valid values: [\"In\" \"NotIn\"]"),
        "In" | "NotIn" => {}
        other => checker.unsupported(&path.field("operator"), other, &["In", "NotIn"]),
    }
    if let Some(name) = node.get("containerName").map(Node::as_str) {
        let pod = spec.at(&["template", "spec"]);
        let named = ["containers", "initContainers"]
            .iter()
            .any(|field| pod.is_some_and(|pod| pod.list(field).iter().any(|own| own.str("name") == name)));
        if !named {
            let detail = "must be one of the container or initContainer names in the pod template";
            checker.invalid(&path.field("containerName"), name, detail);
        }
    }
    let path = path.field("values");
    let values: Vec<i64> = node.list("values").iter().filter_map(Node::as_int).collect();
    if values.is_empty() {
        checker.invalid(&path, "null", "at least one value is required");
    } else if values.len() > 255 {
        checker.fail(&path, Reason::TooMany, "must have at most 255 items");
    }
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            checker.invalid(&path.index(index), "0", "must not be 0 for the In operator");
        }
        if values[..index].contains(value) {
            checker.duplicate(&path.index(index), &value.to_string());
        }
    }
    if values.windows(2).any(|pair| pair[0] > pair[1]) {
        checker.invalid(&path, "", "must be ordered");
    }
}

fn success_policy(checker: &mut Checker<'_>, spec: &Node<'_>, node: &Node<'_>, path: &Path<'_>) {
    let path = path.field("rules");
    let rules = node.list("rules");
    if rules.is_empty() {
        checker.required(
            &path,
            "at least one rules must be specified when the successPolicy is specified",
        );
    }
    if rules.len() > 20 {
        checker.fail(&path, Reason::TooMany, "must have at most 20 items");
    }
    let completions = spec.int("completions").unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let (count, indexes) = (
            rule.int("succeededCount"),
            rule.get("succeededIndexes").map(Node::as_str),
        );
        if count.is_none() && indexes.is_none() {
            checker.required(
                &path,
                "at least one of succeededCount or succeededIndexes must be specified",
            );
        }
        let total = indexes.map(|indexes| count_indexes(indexes, completions));
        if let (Some(None), Some(indexes)) = (&total, indexes) {
            checker.invalid(
                &path.field("succeededIndexes"),
                indexes,
                "error parsing succeededIndexes",
            );
        }
        let Some(count) = count else { continue };
        let at = path.field("succeededCount");
        if count < 0 {
            checker.invalid(&at, &count.to_string(), "must be greater than or equal to 0");
        }
        if count > completions {
            checker.invalid(
                &at,
                &count.to_string(),
                "must be less than or equal to the number of specified completions",
            );
        }
        if total.is_some_and(|total| count > total.unwrap_or(0)) {
            checker.invalid(
                &at,
                &count.to_string(),
                "must be less than or equal to the number of indexes in the specified succeededIndexes field",
            );
        }
    }
}

/// How many indexes a list such as `0,2-5` names; `None` if it is malformed.
fn count_indexes(text: &str, completions: i64) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (mut total, mut last) = (0, -1);
    for interval in text.split(',') {
        let (first, end) = match interval.split_once('-') {
            Some((first, end)) => (first.parse::<i64>().ok()?, end.parse::<i64>().ok()?),
            None => (interval.parse().ok()?, interval.parse().ok()?),
        };
        if first <= last || first >= completions || end >= completions || (interval.contains('-') && first >= end) {
            return None;
        }
        total += end - first + 1;
        last = end;
    }
    Some(total)
}

fn cron_job(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let name = node.at(&["metadata", "name"]).map_or("", Node::as_str);
    if name.len() > 52 && checker.create {
        checker.invalid(
            &path.field("metadata").field("name"),
            name,
            "must be no more than 52 characters",
        );
    }
}

fn cron_job_spec(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let schedule = node.str("schedule");
    let at = path.field("schedule");
    if schedule.is_empty() {
        checker.required(&at, "");
    } else {
        if let Some(problem) = schedule_problem(schedule) {
            checker.invalid(&at, schedule, &problem);
        }
        if schedule.contains("TZ") {
            checker.invalid(
                &at,
                schedule,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            );
        }
    }
    if let Some(zone) = node.get("timeZone").map(Node::as_str) {
        let at = path.field("timeZone");
        if zone.is_empty() {
            checker.invalid(&at, zone, "timeZone must be nil or non-empty string");
        } else if zone.eq_ignore_ascii_case("local") {
            checker.invalid(
                &at,
                zone,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            );
        } else if Timestamp::from_seconds(0).is_some_and(|time| time.in_zone(zone).is_err()) || zone.contains(':') {
            checker.invalid(&at, zone, &format!("unknown time zone {zone}"));
        }
    }
}

fn job_template(checker: &mut Checker<'_>, node: &Node<'_>, path: &Path<'_>) {
    let Some(spec) = node.get("spec") else { return };
    let path = path.field("spec");
    job_spec(checker, spec, &path);
    if spec.has("selector") {
        checker.invalid(&path.field("selector"), "", "`selector` will be auto-generated");
    }
    if spec.bool("manualSelector") {
        checker.unsupported(&path.field("manualSelector"), "true", &["nil", "false"]);
    }
}

/// Validates a standard cron schedule of five fields.
fn schedule_problem(schedule: &str) -> Option<String> {
    const MONTHS: &[&str] = &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let mut text = schedule;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (zone, rest) = text.split_once(' ')?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if Timestamp::from_seconds(0).is_some_and(|time| time.in_zone(zone).is_err()) {
            return Some(format!("provided bad location {zone}"));
        }
        text = rest.trim();
    }
    if let Some(word) = text.strip_prefix('@') {
        let known = matches!(
            word,
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly"
        ) || word
            .strip_prefix("every ")
            .is_some_and(|every| kyvtest_go_compat::text::duration::parse(every).is_ok());
        return (!known).then(|| format!("unrecognized descriptor: {text}"));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    let bounds: [(i64, i64, &[&str], i64); 5] = [
        (0, 59, &[], 0),
        (0, 23, &[], 0),
        (1, 31, &[], 0),
        (1, 12, MONTHS, 1),
        (0, 6, DAYS, 0),
    ];
    fields.iter().zip(bounds).find_map(|(field, bounds)| {
        field
            .split(',')
            .filter(|part| !part.is_empty())
            .find_map(|part| range_problem(part, bounds))
    })
}

fn range_problem(part: &str, (least, most, names, first): (i64, i64, &[&str], i64)) -> Option<String> {
    let number = |text: &str| -> Option<i64> {
        let lower = text.to_lowercase();
        match names.iter().position(|name| *name == lower) {
            Some(position) => Some(position as i64 + first),
            None => text.parse::<u32>().ok().map(i64::from),
        }
    };
    let pieces: Vec<&str> = part.split('/').collect();
    let ends: Vec<&str> = pieces[0].split('-').collect();
    let failed = || Some(format!("failed to parse int from {part}"));
    let (start, mut end, single) = if matches!(ends[0], "*" | "?") {
        (least, most, ends.len() > 1)
    } else {
        let Some(start) = number(ends[0]) else { return failed() };
        match ends.len() {
            1 => (start, start, true),
            2 => match number(ends[1]) {
                Some(end) => (start, end, false),
                None => return failed(),
            },
            _ => return Some(format!("too many hyphens: {part}")),
        }
    };
    match pieces.len() {
        1 => {}
        2 => match number(pieces[1]) {
            None => return failed(),
            Some(0) => return Some(format!("step of range should be a positive number: {part}")),
            Some(_) if single => end = most,
            Some(_) => {}
        },
        _ => return Some(format!("too many slashes: {part}")),
    }
    if start < least {
        return Some(format!("beginning of range ({start}) below minimum ({least}): {part}"));
    }
    if end > most {
        return Some(format!("end of range ({end}) above maximum ({most}): {part}"));
    }
    (start > end).then(|| format!("beginning of range ({start}) beyond end of range ({end}): {part}"))
}
