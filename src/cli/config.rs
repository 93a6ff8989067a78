//! `kyvtest.toml`: options of `kyvtest run`, by profile.
//!
//! A key is the long name of an option. The command line takes precedence, then `KYVTEST_<OPTION>` of the environment,
//! then the selected profile, then the profile `default`. The options are inserted before those of the command line and
//! parsed with them, so that a value has the same meaning everywhere.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, Args as _, parser::ValueSource};
use toml_edit::{Document, Item, TableLike, Value};

use super::{
    Failure,
    cluster::{Cluster, KyvernoConfig},
    data::{DataLens, StrictResources},
    input, overrides,
    suites::Suites,
};
use crate::run::overrides::Override;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, FileId, Sources, Span, nearest};

const FILE: &str = "kyvtest.toml";

/// The key of settings for single cases.
const OVERRIDES: &str = "overrides";

/// The location of the configuration.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Source {
    /// The configuration file [default: `kyvtest.toml` in this directory or a parent]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Read no configuration
    #[arg(long, conflicts_with = "config")]
    no_config: bool,

    /// The profile of the configuration
    #[arg(short = 'P', long, value_name = "NAME", default_value = "default")]
    profile: String,
}

/// An option from the file or the environment.
#[derive(Debug)]
struct Setting {
    key: String,
    values: Vec<String>,
    origin: String,
}

/// The settings from the file and the environment.
#[derive(Debug, Default)]
pub(super) struct Config {
    settings: Vec<Setting>,
    problems: Vec<Diagnostic>,
    /// Settings for single cases.
    pub(super) overrides: Vec<Override>,
    /// The file, if there is one.
    pub(super) path: Option<PathBuf>,
    /// Harmless oddities.
    pub(super) remarks: Vec<Diagnostic>,
    /// The source texts of `remarks`.
    pub(super) sources: Sources,
}

/// Excludes options about the configuration itself, and those that only end a command.
fn is_setting(arg: &Arg) -> bool {
    let own = ["config", "no-config", "profile", "help", "version", "color"];
    arg.get_long().is_some_and(|long| !own.contains(&long))
}

impl Config {
    /// Reads the file and the environment.
    pub(super) fn read(source: &Source, run: &clap::Command) -> Result<Self, Failure> {
        let mut config = Self::default();
        let path = match &source.config {
            Some(path) => Some(path.clone()),
            None if source.no_config => None,
            None => above(),
        };
        if let Some(path) = &path {
            let file = input::read(path, &mut config.sources)?;
            let text = config.sources.text(file).cloned().unwrap_or_default();
            config.file(path, file, &text, &source.profile, run);
        } else if source.profile != "default" {
            let message = format!("no `{FILE}` contains the profile `{}`", source.profile);
            config.problems.push(Diagnostic::new(Code::BadConfig, message));
        }
        config.path = path;
        config.environment(run);
        if config.problems.is_empty() {
            Ok(config)
        } else {
            Err(Failure::Input(config.problems, config.sources))
        }
    }

    fn set(&mut self, key: &str, values: Vec<String>, origin: String) {
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(Setting {
            key: key.to_owned(),
            values,
            origin,
        });
    }

    fn environment(&mut self, run: &clap::Command) {
        for arg in run.get_arguments().filter(|arg| is_setting(arg)) {
            let key = arg.get_long().unwrap_or_default();
            let given = names(arg).find_map(|key| {
                let name = format!("KYVTEST_{}", key.to_ascii_uppercase().replace('-', "_"));
                let value = env::var(&name).ok().filter(|value| !value.is_empty())?;
                Some((name, value))
            });
            let Some((name, value)) = given else { continue };
            match (takes_value(arg), value.as_str()) {
                (true, _) => self.set(key, vec![value], name),
                (false, "true" | "1") => self.set(key, vec!["true".to_owned()], name),
                (false, "false" | "0") => self.set(key, vec!["false".to_owned()], name),
                (false, _) => {
                    let message = format!("`{name}` must be `true` or `false`");
                    self.problems.push(Diagnostic::new(Code::BadConfig, message));
                }
            }
        }
    }

    fn file(&mut self, path: &Path, file: FileId, text: &str, profile: &str, run: &clap::Command) {
        let place = |span: Option<std::ops::Range<usize>>| {
            let span = span.unwrap_or_default();
            Span::new(file, span.start as u32, span.end as u32)
        };
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let problem = Diagnostic::at(Code::BadConfig, place(error.span()), error.message().trim());
                self.problems.push(problem);
                return;
            }
        };
        let mut profiles: Vec<(&str, &dyn TableLike)> = Vec::new();
        for (key, item) in document.as_table() {
            if key != "profile" {
                let span = document.as_table().key(key).and_then(toml_edit::Key::span);
                let message = format!("unknown key `{key}`");
                let remark = Diagnostic::at(Code::UnknownSetting, place(span), message);
                self.remarks
                    .push(remark.with_help("options belong under `[profile.NAME]`"));
                continue;
            }
            for (name, item) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
                match item.as_table_like() {
                    Some(table) => profiles.push((name, table)),
                    None => {
                        let message = format!("the profile `{name}` must be a table");
                        self.problems
                            .push(Diagnostic::at(Code::BadConfig, place(item.span()), message));
                    }
                }
            }
        }
        if profile != "default" && !profiles.iter().any(|(name, _)| *name == profile) {
            let message = format!("`{}` has no profile `{profile}`", path.display());
            let problem = Diagnostic::new(Code::BadConfig, message);
            let near = nearest(profile, profiles.iter().map(|(name, _)| *name));
            self.problems.push(match near.first() {
                Some(near) => problem.with_help(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
        let known: Vec<&Arg> = run.get_arguments().filter(|arg| is_setting(arg)).collect();
        // The profile's settings for single cases take precedence over those of `default`.
        for layer in [profile, "default"] {
            let found = profiles.iter().find(|(name, _)| *name == layer);
            if let Some(item) = found.and_then(|(_, table)| table.get(OVERRIDES)) {
                let read = overrides::read(item, file, &mut self.sources, &mut self.problems, &mut self.remarks);
                self.overrides.extend(read);
            }
            if profile == "default" {
                break;
            }
        }
        for layer in ["default", profile] {
            let Some((name, table)) = profiles.iter().find(|(name, _)| *name == layer) else {
                continue;
            };
            for (key, item) in table.iter().filter(|(key, _)| *key != OVERRIDES) {
                let span = place(table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span()));
                let Some(arg) = known.iter().find(|arg| names(arg).any(|name| name == key)) else {
                    let remark = Diagnostic::at(Code::UnknownSetting, span, format!("unknown key `{key}`"));
                    let near = nearest(key, known.iter().filter_map(|arg| arg.get_long()));
                    let remark = match near.first() {
                        Some(near) => remark.with_help(format!("did you mean `{near}`?")),
                        None => remark,
                    };
                    // Both layers may be the same one.
                    if !self.remarks.contains(&remark) {
                        self.remarks.push(remark);
                    }
                    continue;
                };
                match words(arg, item) {
                    Ok(values) => {
                        let key = arg.get_long().unwrap_or(key);
                        self.set(key, values, format!("{}, profile `{name}`", path.display()));
                    }
                    Err(wanted) => {
                        let problem = Diagnostic::at(Code::BadConfig, span, format!("`{key}` must be {wanted}"));
                        if !self.problems.contains(&problem) {
                            self.problems.push(problem);
                        }
                    }
                }
            }
        }
    }

    /// Arguments for the options that the command line does not set.
    fn tokens(&self, command: &clap::Command, given: &ArgMatches) -> Vec<OsString> {
        let mut tokens = Vec::new();
        for setting in &self.settings {
            let mut args = command.get_arguments();
            let Some(arg) = args.find(|arg| arg.get_long() == Some(setting.key.as_str())) else {
                continue;
            };
            if given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                continue;
            }
            for value in &setting.values {
                if takes_value(arg) {
                    tokens.push(format!("--{}={value}", setting.key).into());
                } else if value == "true" {
                    tokens.push(format!("--{}", setting.key).into());
                }
            }
        }
        tokens
    }

    /// The effective settings as TOML, with their origin.
    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        for setting in &self.settings {
            let quoted = |value: &String| match value.as_str() {
                "true" | "false" => value.clone(),
                number if number.parse::<u64>().is_ok() => value.clone(),
                other => Value::from(other).to_string().trim().to_owned(),
            };
            let value = match &setting.values[..] {
                [one] => quoted(one),
                many => format!("[{}]", many.iter().map(quoted).collect::<Vec<_>>().join(", ")),
            };
            let _ = writeln!(text, "{} = {value} # {}", setting.key, setting.origin);
        }
        for entry in &self.overrides {
            let _ = writeln!(text, "# overrides: {}", overrides::shown(entry));
        }
        text
    }
}

/// The names of an option: the current one, and former ones.
fn names(arg: &Arg) -> impl Iterator<Item = &str> {
    let old = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(old)
}

/// The options of `kyvtest run` that a profile may set, without hidden ones.
pub(super) fn settings(run: &clap::Command) -> impl Iterator<Item = &Arg> {
    run.get_arguments().filter(|arg| is_setting(arg) && !arg.is_hide_set())
}

pub(super) fn takes_value(arg: &Arg) -> bool {
    !matches!(
        arg.get_action(),
        ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count
    )
}

/// The values of an item as command-line arguments; the error names the expected type.
fn words(arg: &Arg, item: &Item) -> Result<Vec<String>, &'static str> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        _ => None,
    };
    match (takes_value(arg), item.as_value()) {
        (false, Some(Value::Boolean(flag))) => Ok(vec![flag.value().to_string()]),
        (false, _) => Err("`true` or `false`"),
        (true, Some(Value::Array(list))) if matches!(arg.get_action(), ArgAction::Append) => {
            let words: Option<Vec<String>> = list.iter().map(one).collect();
            words.ok_or("a list of strings")
        }
        (true, Some(value)) => one(value).map(|word| vec![word]).ok_or("a string or a number"),
        (true, None) => Err("a string or a number"),
    }
}

/// The file in this directory, or in the nearest ancestor that has it.
fn above() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    let found = here
        .ancestors()
        .enumerate()
        .find(|(_, directory)| fs::metadata(directory.join(FILE)).is_ok_and(|found| found.is_file()));
    // The path as a user would write it.
    let (up, _) = found?;
    Some(std::iter::repeat_n("..", up).collect::<PathBuf>().join(FILE))
}

/// The long names of a group of options.
fn longs(group: fn(clap::Command) -> clap::Command) -> Vec<String> {
    let group = group(clap::Command::new(""));
    group
        .get_arguments()
        .filter_map(Arg::get_long)
        .map(str::to_owned)
        .collect()
}

/// The command line with the configuration's additions, and remarks about them. A command line that cannot be parsed
/// stays unchanged: the parser reports the error.
pub(super) fn complete(args: &[OsString], whole: &clap::Command) -> Result<(Vec<OsString>, Config), Failure> {
    let unchanged = || Ok((args.to_vec(), Config::default()));
    let Ok(matches) = whole.clone().try_get_matches_from(args) else {
        return unchanged();
    };
    let Some((name, given)) = matches.subcommand() else {
        return unchanged();
    };
    // An option of the same name may have another meaning in another command, such as its own output formats.
    let shared = match name {
        "run" | "list" | "watch" => None,
        "cover" | "fill" => Some(longs(Suites::augment_args)),
        "diff" | "eval" | "init" | "prove" => {
            let groups = [
                Cluster::augment_args,
                KyvernoConfig::augment_args,
                DataLens::augment_args,
                StrictResources::augment_args,
            ];
            Some(groups.into_iter().flat_map(longs).collect())
        }
        _ => return unchanged(),
    };
    let (Some(command), Some(run)) = (whole.find_subcommand(name), whole.find_subcommand("run")) else {
        return unchanged();
    };
    let source = <Source as clap::FromArgMatches>::from_arg_matches(given)
        .map_err(|error| Diagnostic::new(Code::CommandLine, error.to_string()))?;
    let mut config = Config::read(&source, run)?;
    if let Some(shared) = shared {
        config.settings.retain(|setting| shared.contains(&setting.key));
    }
    if given.try_contains_id("timeout").is_ok() && given.value_source("timeout") == Some(ValueSource::CommandLine) {
        for entry in &mut config.overrides {
            entry.timeout = None;
        }
    }
    let tokens = config.tokens(command, given);
    let at = args
        .iter()
        .position(|word| word == name)
        .map_or(args.len(), |at| at + 1);
    let (before, after) = args.split_at(at);
    let all = before.iter().chain(&tokens).chain(after).cloned().collect();
    Ok((all, config))
}
