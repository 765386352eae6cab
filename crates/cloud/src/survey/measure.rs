//! How much a database stores, and for whom: what is paid for every month.

use super::each_object;
use super::kept::Kept;
use crate::error::Error;
use crate::home::Home;
use crate::names::{Name, TableId};

/// What objects are stored for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Share {
    /// Tables of the newest version.
    Newest,
    /// Tables that only pins keep.
    Pinned,
    /// Tables of versions that were newest lately.
    Past,
    /// Tables that no version that is kept names: uploaded and not yet committed, or garbage.
    Unnamed,
    /// The version log.
    Log,
    /// The write-ahead log.
    Wal,
    /// What is kept of jobs, but for their tables.
    Jobs,
    /// Registers, pins and leases.
    Small,
    /// What is not the database's.
    Foreign,
}

impl Share {
    /// All of them.
    pub const ALL: [Share; 9] = [
        Share::Newest,
        Share::Pinned,
        Share::Past,
        Share::Unnamed,
        Share::Log,
        Share::Wal,
        Share::Jobs,
        Share::Small,
        Share::Foreign,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Share::Newest => "tables of the newest version",
            Share::Pinned => "tables that only checkpoints and clones keep",
            Share::Past => "tables of versions just past",
            Share::Unnamed => "tables that no version names",
            Share::Log => "version log",
            Share::Wal => "write-ahead log",
            Share::Jobs => "records of jobs",
            Share::Small => "registers, pins and leases",
            Share::Foreign => "not of this database",
        }
    }
}

/// Objects, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub objects: u64,
    /// All their bytes.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// How much lies below a database's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// In the order of [`Share::ALL`].
    pub shares: [Amount; Share::ALL.len()],
    /// Tables of other databases that it shares: stored, and paid for, there.
    pub borrowed: Amount,
}

impl Measured {
    /// All that lies below the database's root.
    pub fn total(&self) -> Amount {
        let add = |sum: Amount, one: &Amount| Amount {
            objects: sum.objects + one.objects,
            bytes: sum.bytes.saturating_add(one.bytes),
        };
        self.shares.iter().fold(Amount::default(), add)
    }
}

/// Measures what a database stores; `None` if there is none. A request for each thousand objects, each record that may
/// still be read, and each pin.
pub fn measure(home: &Home) -> Result<Option<Measured>, Error> {
    let kept = Kept::read(home, &mut Err)?;
    if kept.newest.is_none() {
        return Ok(None);
    }
    let mut amounts = [Amount::default(); Share::ALL.len()];
    each_object(home, |stat, name| amounts[share_of(&kept, name) as usize].add(stat.bytes))?;
    let mut borrowed = Amount::default();
    let tables = kept.newest.iter().flat_map(|newest| newest.state.tables().values());
    tables.filter(|table| table.home != 0).for_each(|table| borrowed.add(table.bytes));
    Ok(Some(Measured { shares: amounts, borrowed }))
}

fn share_of(kept: &Kept, name: Option<Name>) -> Share {
    match name {
        None => Share::Foreign,
        Some(Name::Table(id)) => share_of_table(kept, id),
        Some(Name::Version(_)) => Share::Log,
        Some(Name::Wal(_)) => Share::Wal,
        Some(Name::Job(_)) => Share::Jobs,
        Some(Name::Owner | Name::Boundary | Name::Now | Name::Pin(..) | Name::Reader(_)) => {
            Share::Small
        }
    }
}

fn share_of_table(kept: &Kept, id: TableId) -> Share {
    if kept.in_newest.contains(&id) {
        Share::Newest
    } else if kept.in_pins.contains(&id) {
        Share::Pinned
    } else if kept.in_past.contains(&id) {
        Share::Past
    } else {
        Share::Unnamed
    }
}
