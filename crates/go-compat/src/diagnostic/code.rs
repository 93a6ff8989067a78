//! The registry of diagnostic codes: one table, one explanation file per code.
//!
//! Codes are public. A code never changes its meaning, and a number that was used once is not used for anything else.

use std::{fmt, str::FromStr};

use super::Severity;

/// The subject of a code: the digit after `KT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// `KT0`: files, command line, configuration.
    Input,
    /// `KT1`: policies and the expressions in them.
    Policy,
    /// `KT2`: suites: rows and expectations that cannot be used.
    Suite,
    /// `KT3`: results of cases: unexpected, undecided, or not comparable.
    Result,
    /// `KT4`: conversions, repairs and proofs.
    Conversion,
    /// `KT5`: coverage, and generated tests.
    Coverage,
    /// `KT6`: native policies, and the API server's findings about them.
    Native,
}

impl Group {
    /// Every group, in the order of the digits.
    pub const ALL: [Self; 7] = [
        Self::Input,
        Self::Policy,
        Self::Suite,
        Self::Result,
        Self::Conversion,
        Self::Coverage,
        Self::Native,
    ];

    /// The word shown to users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Policy => "policy",
            Self::Suite => "suite",
            Self::Result => "result",
            Self::Conversion => "conversion",
            Self::Coverage => "coverage",
            Self::Native => "native",
        }
    }
}

macro_rules! codes {
    ($($name:ident = $id:literal, $group:ident, $severity:ident, $title:literal;)*) => {
        /// A public diagnostic code. Titles are in the table of this module, explanations in `src/diagnostic/codes/`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = concat!("`", $id, "`: ", $title, ".")] $name,)*
        }

        impl Code {
            /// Every code, in the order of the numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as users write it, such as `KT001`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            pub const fn group(self) -> Group {
                match self { $(Self::$name => Group::$group,)* }
            }

            /// The default severity.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// The meaning of the code in one line.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// The long explanation, in Markdown.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("codes/", $id, ".md")),)* }
            }
        }
    };
}

codes! {
    YamlSyntax = "KT001", Input, Error, "YAML syntax error";
    DuplicateKey = "KT002", Input, Error, "duplicate key in a mapping";
    YamlTooDeep = "KT003", Input, Error, "YAML nested too deeply";
    YamlTooLarge = "KT004", Input, Error, "YAML file too large";
    YamlAliases = "KT005", Input, Error, "YAML document expands to too many nodes";
    Unreadable = "KT006", Input, Error, "file cannot be read";
    NotUtf8 = "KT007", Input, Error, "file is not UTF-8";
    JsonSyntax = "KT008", Input, Error, "JSON syntax error";
    NotJson = "KT009", Input, Error, "YAML value that JSON cannot express";
    OutputFailed = "KT010", Input, Error, "output cannot be written";
    BadValue = "KT011", Input, Error, "value in an invalid format";
    CommandLine = "KT020", Input, Error, "invalid command line";
    UnknownCode = "KT021", Input, Error, "unknown diagnostic code";
    UnknownProfile = "KT022", Input, Error, "unknown CEL profile";
    BadFilter = "KT023", Input, Error, "invalid filter";
    NotMergeable = "KT024", Input, Error, "reports that cannot be merged";
    BadConfig = "KT025", Input, Error, "invalid configuration";
    UnknownSetting = "KT026", Input, Warning, "unknown key in the configuration";
    UnknownField = "KT030", Input, Error, "unknown field";
    WrongType = "KT031", Input, Error, "value of the wrong type";
    MissingField = "KT032", Input, Error, "required field missing";
    RemovedField = "KT033", Input, Error, "removed field";
    DuplicateEntry = "KT034", Input, Error, "duplicate entry";
    WrongKind = "KT035", Input, Error, "document of the wrong kind";
    MissingFile = "KT036", Input, Error, "missing file";
    NotAFile = "KT037", Input, Error, "directory instead of a file";
    RemotePath = "KT038", Input, Error, "network address instead of a path";
    OldSchema = "KT039", Input, Error, "file in a format that Kyverno no longer reads";
    LostDocuments = "KT040", Input, Warning, "documents that Kyverno does not read";
    ListKind = "KT041", Input, Warning, "list instead of single objects";
    DuplicateResource = "KT042", Input, Warning, "duplicate resource";
    IgnoredValue = "KT043", Input, Warning, "value without effect";
    RefusedObject = "KT044", Input, Warning, "object rejected by the API server";
    CelSyntax = "KT101", Policy, Error, "CEL syntax error";
    CelType = "KT102", Policy, Error, "CEL type error";
    CelProgram = "KT103", Policy, Error, "CEL expression with a constant part that always fails";
    CelEvaluation = "KT104", Policy, Error, "CEL evaluation error";
    CelCost = "KT105", Policy, Error, "CEL cost limit exceeded";
    PolicyRefused = "KT106", Policy, Error, "policy rejected by Kyverno";
    RowWord = "KT201", Suite, Error, "invalid value in a row";
    UnknownRow = "KT202", Suite, Error, "expectation without a row";
    Contradiction = "KT203", Suite, Error, "contradictory expectations";
    MissingReason = "KT204", Suite, Error, "expected divergence without a reason";
    EmptySuite = "KT205", Suite, Warning, "suite without expectations";
    VacuousPass = "KT206", Suite, Warning, "check that passes although no rule matched";
    ExpiredDivergence = "KT207", Suite, Error, "expired accepted divergence";
    UnknownAttestor = "KT208", Suite, Error, "image mock for an unknown attestor";
    NoSuchPolicy = "KT210", Suite, Error, "row for a missing policy";
    NoSuchRule = "KT211", Suite, Error, "row for a missing rule";
    NoSuchResource = "KT212", Suite, Error, "row for a missing resource";
    NoSuchKind = "KT213", Suite, Warning, "row whose kind no resource has";
    NoSuchNamespace = "KT214", Suite, Error, "missing namespace";
    NothingInFile = "KT215", Suite, Warning, "empty file";
    NoTests = "KT216", Suite, Warning, "no tests selected";
    UnexpectedResult = "KT301", Result, Error, "unexpected result";
    UnexpectedEffect = "KT302", Result, Error, "unexpected effect";
    UnexpectedMessage = "KT303", Result, Error, "unexpected message";
    UnexpectedMatch = "KT304", Result, Error, "unexpected match";
    NoMatch = "KT305", Result, Error, "row for a resource that the policy does not match";
    NothingChecked = "KT306", Result, Error, "row that checks nothing";
    StaleDivergence = "KT307", Result, Error, "expected divergence that does not occur";
    UnsupportedRule = "KT310", Result, Warning, "unsupported rule";
    Undecided = "KT312", Result, Warning, "undecided cases";
    NeedsRegistry = "KT313", Result, Warning, "image that only a registry can verify";
    Timeout = "KT320", Result, Error, "case that exceeded its time limit";
    NotDeterministic = "KT321", Result, Error, "two runs with different results";
    UpstreamCrash = "KT322", Result, Error, "suite on which `kyverno test` crashes";
    NotConverted = "KT401", Conversion, Error, "policy that Kyverno does not convert";
    ConversionDrops = "KT402", Conversion, Warning, "part of a policy that conversion drops";
    ConversionWidens = "KT403", Conversion, Warning, "generated policy that covers more";
    ConversionNarrows = "KT404", Conversion, Warning, "generated policy that covers less";
    ConversionMaps = "KT405", Conversion, Note, "part of a policy that is converted but evaluated differently";
    NativeInvalid = "KT406", Conversion, Warning, "generated policy rejected by the API server";
    ConversionDiffers = "KT407", Conversion, Warning, "generated policy that differs from the original";
    NothingToConvert = "KT408", Conversion, Error, "no policy to convert";
    NotRepaired = "KT410", Conversion, Error, "policy without a proven native form";
    Repaired = "KT411", Conversion, Note, "policy with a proven native form";
    NotASuite = "KT412", Conversion, Warning, "counterexample that no suite can express";
    NotCovered = "KT501", Coverage, Warning, "part of a policy that no test exercises";
    UnreferencedResource = "KT502", Coverage, Warning, "resource that no row tests";
    BelowMinimum = "KT503", Coverage, Error, "coverage below the minimum";
    NothingToFill = "KT510", Coverage, Note, "nothing to fill in";
    NoExample = "KT511", Coverage, Error, "no resource to test the rules with";
    ExampleMissing = "KT512", Coverage, Warning, "rule without a passing or failing example";
    WouldOverwrite = "KT513", Coverage, Error, "file that would be overwritten";
    NotUpdated = "KT514", Coverage, Warning, "expectation left unchanged";
    NativeRefused = "KT600", Native, Error, "native policy or binding rejected by the API server";
    UnboundPolicy = "KT601", Native, Warning, "native policy without a binding";
    DanglingBinding = "KT602", Native, Error, "binding without its policy";
    UnknownParamKind = "KT603", Native, Error, "unknown parameter kind";
    DanglingException = "KT604", Native, Error, "exception without its policy";
    BadRequest = "KT605", Native, Error, "invalid request";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// The string is not a registered code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown diagnostic code `{0}`")]
pub struct UnknownCode(String);

impl FromStr for Code {
    type Err = UnknownCode;

    /// Parses a code, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.id().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Compares the list of codes with the names of the explanation files.
    fn mismatches(codes: &BTreeSet<String>, files: &BTreeSet<String>) -> Vec<String> {
        let missing = codes.difference(files).map(|c| format!("{c} has no explanation"));
        let orphans = files.difference(codes).map(|f| format!("explanation {f} has no code"));
        missing.chain(orphans).collect()
    }

    fn set(items: &[&str]) -> BTreeSet<String> {
        items.iter().map(|&s| s.to_owned()).collect()
    }

    #[test]
    fn each_code_has_an_explanation_and_each_explanation_a_code() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diagnostic/codes");
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.strip_suffix(".md").unwrap_or(&name).to_owned())
            .collect();
        let codes = Code::ALL.iter().map(|code| code.id().to_owned()).collect();
        assert_eq!(mismatches(&codes, &files), Vec::<String>::new());
    }

    #[test]
    fn a_missing_explanation_and_an_orphan_are_noticed() {
        assert_eq!(
            mismatches(&set(&["KT001", "KT002"]), &set(&["KT002", "KT003"])),
            ["KT001 has no explanation", "explanation KT003 has no code"]
        );
    }

    #[test]
    fn explanations_start_with_code_and_title_and_say_what_to_do() {
        for code in Code::ALL {
            let text = code.explanation();
            let heading = format!("# {}: {}\n", code.id(), code.title());
            assert!(
                text.starts_with(&heading),
                "{code}: the first line is not `{}`",
                heading.trim_end()
            );
            assert!(text.contains("\n## What to do\n"), "{code}: no section `What to do`");
            assert!(
                text.ends_with('\n') && !text.ends_with("\n\n"),
                "{code}: one newline at the end"
            );
        }
    }

    #[test]
    fn codes_are_unique_in_order_and_in_their_group() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.id() < b.id()));
        for code in Code::ALL {
            let digits = code.id().strip_prefix("KT").expect("codes start with KT");
            assert!(
                digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()),
                "{code}"
            );
            let group = usize::from(digits.as_bytes()[0] - b'0');
            assert_eq!(Group::ALL.get(group), Some(&code.group()), "{code}");
        }
    }

    #[test]
    fn codes_are_read_in_any_case() {
        assert_eq!("kt001".parse(), Ok(Code::YamlSyntax));
        assert_eq!(
            "KT999".parse::<Code>().unwrap_err().to_string(),
            "unknown diagnostic code `KT999`"
        );
    }
}
