//! Schedules in the form of cron: five fields, a descriptor such as `@daily`, or `@every` with a duration.
//!
//! Upstream counterpart: `ParseStandard` of github.com/robfig/cron/v3, with which `ValidateSchedule` of
//! `api/kyverno/v2/cleanup_policy_types.go` (Kyverno 1.19) decides whether a cluster takes a policy.
//!
//! Known deviation: the names of time zones are not looked up.

use kyvtest_go_compat::text::duration;

/// A field of a schedule.
struct Field {
    least: u32,
    most: u32,
    /// The names of its values, from the least on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field::new(0, 59, &[]),
    Field::new(0, 23, &[]),
    Field::new(1, 31, &[]),
    Field::new(
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    Field::new(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Checks a schedule.
///
/// # Errors
/// Why it is not one, in upstream's words.
pub fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut spec = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((_, rest)) = schedule.split_once(' ') else {
            return Err(format!("provided bad location {schedule}: no schedule follows it"));
        };
        spec = rest.trim();
    }
    if spec.starts_with('@') {
        if DESCRIPTORS.contains(&spec) {
            return Ok(());
        }
        let Some(every) = spec.strip_prefix("@every ") else {
            return Err(format!("unrecognized descriptor: {spec}"));
        };
        return match duration::parse(every) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {spec}: {error}")),
        };
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let count = fields.len();
        return Err(format!(
            "expected exactly 5 fields, found {count}: [{}]",
            fields.join(" ")
        ));
    }
    for (text, field) in fields.into_iter().zip(&FIELDS) {
        for range in text.split(',').filter(|range| !range.is_empty()) {
            field.range(range)?;
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    let parsed: Result<i64, _> = text.parse();
    match parsed {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| format!("failed to parse int from {text}: value out of range")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

impl Field {
    const fn new(least: u32, most: u32, names: &'static [&'static str]) -> Self {
        Self { least, most, names }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_lowercase();
        let named = self.names.iter().position(|name| *name == lower);
        match named.and_then(|at| u32::try_from(at).ok()) {
            Some(at) => Ok(self.least + at),
            None => number(text),
        }
    }

    fn range(&self, range: &str) -> Result<(), String> {
        let (bounds, steps) = range.split_once('/').map_or((range, None), |(a, b)| (a, Some(b)));
        let parts: Vec<&str> = bounds.split('-').collect();
        let (start, mut end) = match parts.as_slice() {
            ["*" | "?", ..] => (self.least, self.most),
            [one] => (self.value(one)?, self.value(one)?),
            [low, high] => (self.value(low)?, self.value(high)?),
            _ => return Err(format!("too many hyphens: {range}")),
        };
        let step = match steps {
            None => 1,
            Some(steps) if steps.contains('/') => return Err(format!("too many slashes: {range}")),
            Some(step) => {
                if parts.len() == 1 {
                    end = self.most;
                }
                number(step)?
            }
        };
        let (least, most) = (self.least, self.most);
        if start < least {
            return Err(format!("beginning of range ({start}) below minimum ({least}): {range}"));
        }
        if end > most {
            return Err(format!("end of range ({end}) above maximum ({most}): {range}"));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {range}"
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_checked_as_upstream_parses_them() {
        for schedule in [
            "0 * * * *",
            "*/5 0-6 1,15 jan-MAR sun",
            "5/15 * ? * *",
            "@daily",
            "@every 1h30m",
            "CRON_TZ=Europe/Oslo 0 6 * * 1-5",
        ] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
        for (schedule, error) in [
            ("", "empty spec string"),
            ("not cron", "expected exactly 5 fields, found 2: [not cron]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
        ] {
            assert_eq!(check(schedule), Err(error.to_owned()), "{schedule}");
        }
    }
}
