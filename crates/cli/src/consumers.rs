//! `cedrat consumers`: the consumers of the change stream, and how far each is behind.

use cedrat_txn::{ConsumerStatus, consumers_of};
use cedrat_wal::Log;
use serde::Serialize;

use crate::arguments::Consumers;
use crate::disks::Disks;
use crate::look;
use crate::output::{self, Context, Outcome, grouped};

/// The consumers of a store.
#[derive(Debug, Serialize)]
struct Shown {
    /// The LSN up to which all records were durable at the last checkpoint.
    durable: u64,
    consumers: Vec<ShownConsumer>,
}

#[derive(Debug, Serialize)]
struct ShownConsumer {
    name: String,
    /// Whether it is a replica.
    is_replica: bool,
    /// All commits up to this LSN were confirmed.
    position: u64,
    /// The first LSN that it needs.
    needs: u64,
    limit_bytes: u64,
    /// Bytes of log that it kept when it was released.
    #[serde(skip_serializing_if = "Option::is_none")]
    released_bytes: Option<u64>,
}

impl ShownConsumer {
    fn of(status: ConsumerStatus) -> ShownConsumer {
        let ConsumerStatus { name, is_replica, position, needs, limit_bytes, released_bytes, .. } = status;
        ShownConsumer { name, is_replica, position: position.get(), needs: needs.get(), limit_bytes, released_bytes }
    }

    fn text(&self, durable: u64) -> String {
        let behind = durable.saturating_sub(self.position);
        let kind = if self.is_replica { "replica, " } else { "" };
        let mut text =
            format!("{kind}at LSN {}, {} records behind the last checkpoint", self.position, grouped(behind));
        if let Some(bytes) = self.released_bytes {
            let limit = grouped(self.limit_bytes);
            text += &format!("; RELEASED when it kept {} bytes, limit {limit}", grouped(bytes));
        }
        text
    }
}

/// Prints the consumers.
pub(crate) fn consumers(arguments: &Consumers, disks: &Disks) -> Outcome {
    look::is_directory(&arguments.directory)?;
    let media = disks.open(&arguments.directory)?;
    let control = Log::look_at_control(&media).while_doing(arguments.directory.display())?;
    let (consumers, _) = consumers_of(&media, &control)?;
    let consumers = consumers.into_iter().map(ShownConsumer::of).collect();
    let shown = Shown { durable: control.promise.get(), consumers };
    if arguments.json {
        output::json(&shown)?;
    } else if shown.consumers.is_empty() {
        output::show("the store has no consumers")?;
    } else {
        let rows: Vec<_> = shown.consumers.iter().map(|it| (&it.name[..], it.text(shown.durable))).collect();
        output::rows(&rows)?;
    }
    let released = shown.consumers.iter().filter(|consumer| consumer.released_bytes.is_some());
    let problems: Vec<_> = released
        .map(|it| {
            let (name, needs) = (&it.name, it.needs);
            if it.is_replica {
                return format!(
                    "replica \"{name}\" was released: if the log from LSN {needs} on is gone, begin another one"
                );
            }
            format!("consumer \"{name}\" was released: without an archive it loses changes from LSN {needs} on")
        })
        .collect();
    output::ended(&problems)
}
