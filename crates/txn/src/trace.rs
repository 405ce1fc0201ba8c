//! Spans and events for the `tracing` crate. Builds without the feature `tracing` have none, and evaluate no field.

/// Enters a span, up to the end of the enclosing block.
macro_rules! span {
    ($name:literal $($fields:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!(target: "cedrat", $name $($fields)*).entered();
    };
}

/// Records an event of this level: `ERROR`, `WARN`, `INFO` or `DEBUG`.
macro_rules! event {
    ($level:ident, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::event!(target: "cedrat", tracing::Level::$level, $($rest)*);
    };
}

pub(crate) use {event, span};
