//! `kyvtest schema`: JSON Schemas of the files that users write and of the JSON report.

use std::io::Write as _;

use clap::{Arg, ArgAction, ValueEnum};
use serde_json::{Map, Value, json};

use super::{
    Exit, Failure, command,
    config::{settings, takes_value},
    output::Output,
};

/// Print a JSON Schema (draft 2020-12)
///
/// Editors use it to check and complete YAML files. With the YAML language server, put this into the first line of a
/// file: `# yaml-language-server: $schema=suite.json`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The schema of kyverno-test.yaml, of its sidecar kyvtest.yaml, of kyvtest.toml, of the report of `kyvtest run
    /// -o json`, or of a line of `kyvtest prove --pairs`
    #[arg(value_enum, default_value_t)]
    of: Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Schema {
    #[default]
    Suite,
    Sidecar,
    Config,
    Report,
    Pairs,
}

impl Args {
    pub(super) fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        let text = match self.of {
            Schema::Suite => include_str!("schemas/suite.json").to_owned(),
            Schema::Sidecar => include_str!("schemas/sidecar.json").to_owned(),
            Schema::Config => format!("{:#}\n", config(&command())),
            Schema::Report => include_str!("schemas/report.json").to_owned(),
            Schema::Pairs => include_str!("schemas/pairs.json").to_owned(),
        };
        output.artefact().write_all(text.as_bytes())?;
        Ok(Exit::Success)
    }
}

/// The schema of `kyvtest.toml`, built from the options of `kyvtest run`.
fn config(whole: &clap::Command) -> Value {
    let mut properties = Map::new();
    for arg in whole.find_subcommand("run").into_iter().flat_map(settings) {
        if let Some(name) = arg.get_long() {
            properties.insert(name.to_owned(), option(arg));
        }
    }
    properties.insert(
        "overrides".to_owned(),
        json!({"type": "array", "items": {"$ref": "#/$defs/override"}}),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://kyvtest.dev/schemas/config.json",
        "title": "kyvtest.toml",
        "description": "Options of `kyvtest run`, by profile.",
        "type": "object",
        "properties": {
            "profile": {
                "type": "object",
                "description": "Profiles by name. A profile inherits settings that it does not define from \
                    `default`.",
                "additionalProperties": {"$ref": "#/$defs/profile"},
            },
        },
        "additionalProperties": false,
        "$defs": {
            "profile": {"type": "object", "properties": properties, "additionalProperties": false},
            "override": {
                "type": "object",
                "description": "Settings for the cases that a filter selects.",
                "properties": {
                    "filter": {"type": "string", "description": "A filter expression, as for `-E`."},
                    "timeout": {"type": "string", "description": "The time limit of a case, such as `500ms`."},
                    "accept-divergence": {
                        "type": ["string", "array"],
                        "items": {"type": "string"},
                        "description": "Classes and codes of divergences that do not fail the run.",
                    },
                    "reason": {"type": "string", "description": "Why they are accepted."},
                },
                "required": ["filter"],
                "dependentRequired": {"accept-divergence": ["reason"]},
                "additionalProperties": false,
            },
        },
    })
}

/// The schema of an option in the configuration.
fn option(arg: &Arg) -> Value {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if !takes_value(arg) {
        return json!({"type": "boolean", "description": help});
    }
    let words: Vec<String> = arg
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    let one = if words.is_empty() {
        json!({"type": ["string", "integer"]})
    } else {
        json!({"enum": words})
    };
    let mut schema = match arg.get_action() {
        ArgAction::Append => json!({"type": ["string", "array"], "items": one}),
        _ => one,
    };
    schema["description"] = help.into();
    schema
}
