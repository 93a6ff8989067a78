//! The use of colour, and the styles.
//!
//! The conventions are those of no-color.org and of CLICOLOR_FORCE. Unlike some tools we do not treat `CI` as a
//! terminal: a file or a pipe gets colour only on request.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use anstyle::{AnsiColor, Style};
use clap::{ValueEnum, builder::Styles};

/// The user's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum ColorChoice {
    /// On terminals, unless the environment overrides it.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Headings.
pub(super) const HEADING: Style = Style::new().bold().underline();

/// Codes, names and other literals.
pub(super) const LITERAL: Style = Style::new().bold();

/// The same styles for help.
pub(super) const HELP: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(LITERAL)
    .error(AnsiColor::BrightRed.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

impl ColorChoice {
    /// Whether a stream gets colour, given the environment of this process.
    pub(super) fn enabled(self, terminal: bool) -> bool {
        self.decide(terminal, |name| env::var_os(name))
    }

    fn decide(self, terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if set("NO_COLOR").is_some() => false,
            Self::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            Self::Auto => terminal && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}

/// Whether the terminal only shows ASCII: the locale names another encoding than UTF-8. Without a locale UTF-8 is
/// assumed, as on most machines without one.
pub(super) fn ascii_only() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].map(env::var_os);
    let locale = variables.into_iter().flatten().find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        !locale.contains("utf-8") && !locale.contains("utf8")
    })
}

/// The choice on the command line, before it is parsed: an error in the arguments is shown in the requested colour.
pub(super) fn requested(args: &[OsString]) -> ColorChoice {
    let mut choice = ColorChoice::default();
    let mut words = args
        .iter()
        .skip(1)
        .map(OsString::as_os_str)
        .take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let value = match word.to_str() {
            Some("--color") => words.next().and_then(OsStr::to_str),
            Some(word) => word.strip_prefix("--color="),
            None => None,
        };
        if let Some(known) = value.and_then(|value| ColorChoice::from_str(value, false).ok()) {
            choice = known;
        }
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(choice: ColorChoice, terminal: bool, variables: &[(&str, &str)]) -> bool {
        choice.decide(terminal, |name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn flags_beat_the_environment_and_the_environment_beats_the_terminal() {
        use ColorChoice::*;
        assert!(decide(Auto, true, &[]));
        assert!(!decide(Auto, false, &[]));
        assert!(!decide(Auto, false, &[("CI", "true")]));
        assert!(!decide(Auto, true, &[("NO_COLOR", "1")]));
        assert!(decide(Auto, true, &[("NO_COLOR", "")]));
        assert!(decide(Auto, false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!decide(Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!decide(Auto, false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(!decide(Auto, true, &[("TERM", "dumb")]));
        assert!(decide(Auto, true, &[("TERM", "xterm")]));
        assert!(decide(Auto, false, &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")]));
        assert!(decide(Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")]));
        assert!(!decide(Never, true, &[("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn the_choice_is_seen_in_a_command_line_that_is_wrong() {
        let choice = |words: &[&str]| requested(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            choice(&["kyvtest", "nonsense", "--color", "always"]),
            ColorChoice::Always
        );
        assert_eq!(choice(&["kyvtest", "--color=never", "--nonsense"]), ColorChoice::Never);
        assert_eq!(choice(&["kyvtest", "--color"]), ColorChoice::Auto);
        assert_eq!(choice(&["kyvtest", "--color=pink"]), ColorChoice::Auto);
        assert_eq!(choice(&["kyvtest", "--", "--color=never"]), ColorChoice::Auto);
    }
}
