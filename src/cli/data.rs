//! The options of the data lens: which objects policies see, and how rejected ones are reported.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::run::Data;

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
    /// The given lens, or the default.
    pub(super) fn or(&self, default: Data) -> Data {
        self.data.unwrap_or(default)
    }

    /// The given lens, or the default of a run.
    pub(super) fn of_run(&self, compat: bool) -> Data {
        self.or(if compat { Data::Raw } else { Data::Normalised })
    }

    /// The option as given, with a blank before it.
    pub(super) fn replay(&self, words: &mut String) {
        if let Some(data) = self.data {
            words.push_str(" --data ");
            words.push_str(data.name());
        }
    }
}

/// The treatment of objects that the API server rejects.
#[derive(Debug, clap::Args)]
pub(super) struct StrictResources {
    /// Treat objects that the API server rejects as errors, not as warnings
    #[arg(long)]
    pub(super) strict_resources: bool,
}
