//! What is looked at before tables that others have made become the database's (V1 and V3 of [`away`](super::away)).

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::slot::Slot;
use crate::compaction::job::{Job, Output};
use crate::compaction::merge;
use crate::compaction::service::FinishedJob;
use crate::compaction::service::spec::JobTable;
use crate::db::background::install::refused;
use crate::db::core::Core;
use crate::format::table::builder::TableSummary;
use crate::version::table_meta::TableMeta;

impl Core {
    /// Rule R10, which V1 keeps: looked at once more, for a job may have been away for hours.
    pub(super) fn check_inputs(&self, job: &Job) -> Result<()> {
        let version = Arc::clone(&self.view.load().version);
        let is_there = |(slot, table): (Slot, &Arc<TableMeta>)| {
            version.slot(slot).iter().any(|there| there.number == table.number)
        };
        if job.input_tables().all(is_there) {
            return Ok(());
        }
        let message = format!("job {}: an input has gone while it was merged", job.id);
        Err(Error::new(ErrorKind::ReadOnly, message))
    }

    /// V3. After an error nothing of it is in the store.
    pub(super) fn adopt(&self, job: &Job, finished: &dyn FinishedJob) -> Result<Output> {
        let summary = |table: &JobTable| table.summary(self.new_file_number());
        let tables: Vec<TableSummary> =
            finished.tables().iter().map(summary).collect::<Result<_>>()?;
        let output = Output {
            bytes_written: tables.iter().map(|built| built.bytes).sum(),
            tables,
            entries_dropped: finished.entries_dropped(),
            ..Output::default()
        };
        if !job.accepts(&self.settings.order, &output) {
            return Err(refused(job.id));
        }
        self.with_context(1, |context| {
            let mut tables = output.tables.iter().enumerate();
            let adopted = tables.try_for_each(|(nth, built)| finished.adopt(nth, built.number));
            adopted.inspect_err(|_| merge::discard(context, &output))?;
            let output = merge::join(job, context, vec![output])?;
            let checked = output.tables.iter().try_for_each(|built| self.check_adopted(built));
            checked.inspect_err(|_| merge::discard(context, &output))?;
            Ok(output)
        })
    }

    /// What a table says about itself is what was said about it. It is open already.
    fn check_adopted(&self, built: &TableSummary) -> Result<()> {
        let table = self.tables.get(built.number, built.bytes)?;
        let told = table
            .properties()
            .map(|own| (own.entries, own.deletions, own.smallest_seqno, own.largest_seqno));
        let said = &built.properties;
        let said = (said.entries, said.deletions, said.smallest_seqno, said.largest_seqno);
        if told != Some(said) {
            let message = "the table does not say about itself what was said about it";
            return Err(Error::corruption(message).in_file(table.path()));
        }
        Ok(())
    }
}
