//! Results and progress.

use super::{Checked, all, count, each, index, required};
use crate::grpc::wire;
use crate::job::invalid::{Invalid, at_most};
use crate::job::limits::{OUTPUTS_MAX, SIDECAR_BYTES_MAX};
use crate::job::name::ObjectName;
use crate::job::result::{Costs, JobResult, OutputTable, Progress};
use crate::job::spec::Span;
use crate::message::{AttemptId, Finished};

pub(super) fn outputs(outputs: Vec<wire::OutputTable>) -> Checked<Vec<OutputTable>> {
    at_most("outputs", outputs.len(), OUTPUTS_MAX)?;
    each(outputs)
}

pub(super) fn done(done: wire::Done) -> Checked<(AttemptId, Finished)> {
    let id = required("attempt", done.id)?.try_into()?;
    let resumed = index("resumed outputs", done.resumed)?;
    let costs = done.costs.unwrap_or_default().into();
    let result = JobResult { outputs: outputs(done.outputs)?, costs };
    Ok((id, Finished { resumed, result }))
}

pub(super) fn wire_done(id: AttemptId, finished: Finished) -> wire::Done {
    wire::Done {
        id: Some(id.into()),
        resumed: count(finished.resumed),
        outputs: all(finished.result.outputs),
        costs: Some(finished.result.costs.into()),
    }
}

pub(super) fn report(report: wire::Report) -> Checked<(AttemptId, Progress)> {
    let id = required("attempt", report.id)?.try_into()?;
    let before = index("outputs before", report.before)?;
    let costs = report.costs.unwrap_or_default().into();
    Ok((id, Progress { before, outputs: outputs(report.outputs)?, costs }))
}

pub(super) fn wire_report(id: AttemptId, progress: Progress) -> wire::Report {
    wire::Report {
        id: Some(id.into()),
        before: count(progress.before),
        outputs: all(progress.outputs),
        costs: Some(progress.costs.into()),
    }
}

impl TryFrom<wire::OutputTable> for OutputTable {
    type Error = Invalid;

    fn try_from(output: wire::OutputTable) -> Checked<Self> {
        let Span { smallest, largest } = required("output's span", output.span)?.try_into()?;
        for (what, block) in [("index", &output.index), ("filter", &output.filter)] {
            at_most(what, block.as_ref().map_or(0, Vec::len), SIDECAR_BYTES_MAX)?;
        }
        Ok(OutputTable {
            name: ObjectName::new(&output.name)?,
            bytes: output.bytes,
            crc32c: output.crc32c,
            smallest,
            largest,
            seqnos: required("output's sequence numbers", output.seqnos)?.try_into()?,
            entries: output.entries,
            deletions: output.deletions,
            index: output.index,
            filter: output.filter,
        })
    }
}

impl From<OutputTable> for wire::OutputTable {
    fn from(output: OutputTable) -> Self {
        wire::OutputTable {
            name: output.name.to_string(),
            bytes: output.bytes,
            crc32c: output.crc32c,
            span: Some(Span { smallest: output.smallest, largest: output.largest }.into()),
            seqnos: Some(output.seqnos.into()),
            entries: output.entries,
            deletions: output.deletions,
            index: output.index,
            filter: output.filter,
        }
    }
}

impl From<wire::Costs> for Costs {
    fn from(costs: wire::Costs) -> Self {
        Costs {
            bytes_read: costs.bytes_read,
            bytes_written: costs.bytes_written,
            requests: costs.requests,
            entries_read: costs.entries_read,
            entries_dropped: costs.entries_dropped,
        }
    }
}

impl From<Costs> for wire::Costs {
    fn from(costs: Costs) -> Self {
        wire::Costs {
            bytes_read: costs.bytes_read,
            bytes_written: costs.bytes_written,
            requests: costs.requests,
            entries_read: costs.entries_read,
            entries_dropped: costs.entries_dropped,
        }
    }
}
