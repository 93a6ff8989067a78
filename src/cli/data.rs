//! The data lens as options: which objects policies see, and what to do about those that the API server refuses.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::run::Data;

/// Which objects policies see.
#[derive(Debug, clap::Args)]
pub(super) struct DataLens {
    /// Which objects policies see: as written (`raw`), or as the API server makes them (`normalised`)
    ///
    /// An API server drops unknown fields, fills in defaults and runs its own plugins before any policy sees an object;
    /// `kyvtest normalise` shows the result. The default is `normalised`, and `raw` for requests that are given verbatim and
    /// with `--compat`, because `kyverno test` evaluates objects as written.
    #[arg(long, value_name = "DATA", value_parser = lenses())]
    data: Option<Data>,
}

fn lenses() -> impl TypedValueParser<Value = Data> {
    PossibleValuesParser::new(Data::ALL.map(Data::name)).map(|name| Data::named(&name).unwrap_or_default())
}

impl DataLens {
    /// The lens that is given, or another one.
    pub(super) fn or(&self, default: Data) -> Data {
        self.data.unwrap_or(default)
    }

    /// The lens that is given, or that of a run.
    pub(super) fn of_run(&self, compat: bool) -> Data {
        self.or(if compat { Data::Raw } else { Data::Normalised })
    }

    /// The option as it was given, with a blank before it.
    pub(super) fn replay(&self, words: &mut String) {
        if let Some(data) = self.data {
            words.push_str(" --data ");
            words.push_str(data.name());
        }
    }
}

/// What to do about objects that the API server refuses.
#[derive(Debug, clap::Args)]
pub(super) struct StrictResources {
    /// Treat objects that the API server refuses as errors, not as warnings
    #[arg(long)]
    pub(super) strict_resources: bool,
}
