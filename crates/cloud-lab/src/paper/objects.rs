//! M1: what one object takes by its size, three ways. Whole, as the paper's native way reads and writes; by ranges, with
//! windows that run ahead, and in parts, as our tables are; and as a file on S3FS.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;
use siltstone::{Access, Error, RandomAccessFile, Result};
use siltstone_cloud::{
    Bucket, Call, Epoch, Part, Purpose, RemoteTables, TableId, TableObject, upload,
};
use siltstone_s3::Options as BucketOptions;

use super::{NO_MOUNT, Places, mount};
use crate::figure::{Figure, Unit, Wanted, median};
use crate::processors;
use crate::stage::{CACHE_BYTES, Dice, Machine, Plan, Stage, engine, wrong};

/// From 4 KiB to 64 MiB, each four times the one before.
const SIZES: [usize; 8] =
    [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// What a get wants of an object: about a block.
pub(super) const RANGE_BYTES: usize = 4 << 10;
/// Objects of one size: as many as these bytes make, within bounds.
const BYTES: usize = 64 << 20;
const COUNT: RangeInclusive<u64> = 3..=20;
/// A range of a small object takes what all of it takes: two such times are not the same for that.
const AS_FAST: f64 = 0.95;
/// Gets of each way for a median, unless they take longer: then each object once.
const GETS: usize = 5_000;
const GETS_WITHIN: Duration = Duration::from_millis(500);
/// No time at all would be divided by.
const SECONDS_MIN: f64 = 1e-9;

/// Puts objects of each size, gets a little of each, and reads each from its beginning to its end, each way in turn.
///
/// # Errors
///
/// Whatever a bucket or the mount meets.
pub fn objects(plan: &Plan, places: &Places, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    each_size(&SIZES, plan, places, tell)
}

fn each_size(
    sizes: &[usize],
    plan: &Plan,
    places: &Places,
    tell: &mut dyn FnMut(Figure),
) -> Result<()> {
    let stage = places.stage(plan);
    let mounted = places.mounted(plan);
    if mounted.is_none() {
        tell(Figure::missing("M1", "objects on S3FS", NO_MOUNT));
    }
    let mut dice = Dice(plan.seed);
    let mut content = vec![0; sizes.iter().copied().max().unwrap_or_default()];
    dice.fill(&mut content);
    let content = Bytes::from(content);
    for size in sizes {
        let objects = Objects::new(content.slice(..*size), &mut dice);
        let [whole, ours] = both_ways(&stage, &objects)?;
        report((&objects, "whole objects"), &whole, tell);
        report((&objects, "ranges"), &ours, tell);
        let ratio = objects.figure("gets, ranges to whole objects", whole.get / ours.get);
        tell(ratio.wanted(Wanted::AtLeast(AS_FAST)));
        let Some(mounted) = &mounted else { continue };
        let s3fs = mount::times(mounted, &objects)?;
        report((&objects, "S3FS"), &s3fs, tell);
        if places.are_comparable() {
            compare(&objects, &ours, &s3fs, tell);
        }
    }
    Ok(())
}

/// Objects of one size, which have the same bytes, and of each what a get wants.
pub(super) struct Objects {
    pub(super) body: Bytes,
    /// Where the range of each begins.
    offsets: Vec<u64>,
}

/// Of one way, medians, in seconds.
pub(super) struct Times {
    /// Until 4 KiB somewhere in the object are there.
    pub(super) get: f64,
    /// Until all of it is.
    pub(super) through: f64,
    pub(super) put: f64,
}

impl Objects {
    fn new(body: Bytes, dice: &mut Dice) -> Self {
        let count = ((BYTES / body.len()) as u64).clamp(*COUNT.start(), *COUNT.end());
        let ranges = (body.len() / RANGE_BYTES) as u64;
        let offsets = (0..count).map(|_| dice.below(ranges) * RANGE_BYTES as u64).collect();
        Objects { body, offsets }
    }

    pub(super) fn offset(&self, number: u64) -> u64 {
        self.offsets[number as usize]
    }

    /// The median of what `work` takes with each.
    pub(super) fn time(&self, mut work: impl FnMut(u64) -> Result<()>) -> Result<f64> {
        let times = (0..self.offsets.len() as u64).map(|number| {
            let begin = Instant::now();
            work(number)?;
            Ok(begin.elapsed().as_secs_f64())
        });
        Ok(median(times.collect::<Result<_>>()?).max(SECONDS_MIN))
    }

    /// Puts each as a table is put after a flush.
    fn put(&self, machine: &Machine) -> Result<(f64, Vec<TableObject>)> {
        let mut tables = Vec::new();
        let time = self.time(|number| {
            let id = TableId::Own { epoch: Epoch(1), number };
            let table = upload(&machine.home, id, &self.body, Purpose::Flush)?;
            let name = machine.home.root().table(id);
            tables.push(TableObject { name, bytes: table.bytes, crc32c: table.crc32c });
            Ok(())
        })?;
        Ok((time, tables))
    }

    /// Medians of getting all of each, and of the range that a get wants. By turns, and on one processor: where a store takes no
    /// time, threads that wake each other take half as long there as on two, and each way's stay where they happen to be.
    fn time_gets(&self, stage: &Stage, tables: &[TableObject]) -> Result<[f64; 2]> {
        let _kept = processors::keep_on(0);
        // Ways of their own: where times are drawn by seed, both draw the same.
        let (whole, ranges) = (stage.machine("whole")?, stage.machine("ranges")?);
        let (begin, mut times) = (Instant::now(), [Vec::new(), Vec::new()]);
        while times[0].is_empty() || (times[0].len() < GETS && begin.elapsed() < GETS_WITHIN) {
            for (number, table) in tables.iter().enumerate() {
                let range = Part::Range { offset: self.offsets[number], len: RANGE_BYTES as u64 };
                for (way, (machine, part)) in
                    [(&whole, Part::Whole), (&ranges, range)].into_iter().enumerate()
                {
                    let begin = Instant::now();
                    self.get(machine, table, part)?;
                    times[way].push(begin.elapsed().as_secs_f64());
                }
            }
        }
        Ok(times.map(|times| median(times).max(SECONDS_MIN)))
    }

    fn get(&self, machine: &Machine, table: &TableObject, part: Part) -> Result<()> {
        let object = machine.bucket.get(&table.name, part, Call::new(Purpose::Tool));
        let object = object.map_err(wrong)?;
        let begin = object.offset as usize;
        let expected = self.body.get(begin..begin + object.body.len());
        assert_eq!(Some(&object.body[..]), expected, "what was put is what is got");
        Ok(())
    }

    /// A ratio.
    fn figure(&self, what: &str, value: f64) -> Figure {
        Figure::new("M1", format!("{}: {what}", self.size()), value, Unit::Ratio)
    }

    fn size(&self) -> String {
        match self.body.len() >> 10 {
            kib @ ..1024 => format!("{kib} KiB"),
            kib => format!("{} MiB", kib >> 10),
        }
    }
}

/// As the paper does it, a file got whole for whatever is read of it and put whole; and as our tables are written and read.
fn both_ways(stage: &Stage, objects: &Objects) -> Result<[Times; 2]> {
    let in_one_piece = BucketOptions { single_put_bytes: usize::MAX, ..BucketOptions::default() };
    let (put_whole, _) = objects.put(&stage.machine_with(in_one_piece, "puts")?)?;
    let (put, tables) = objects.put(&stage.machine("puts")?)?;
    let [get_whole, get] = objects.time_gets(stage, &tables)?;
    let machine = stage.machine("windows")?;
    let reads = machine.reads(&engine(None), Some(CACHE_BYTES))?;
    let remote = RemoteTables::new(machine.bucket.clone(), reads)?;
    let through = objects.time(|number| read_through(&remote, &tables[number as usize]))?;
    Ok([Times { get: get_whole, through: get_whole, put: put_whole }, Times { get, through, put }])
}

/// As a scan reads a table that it has to open, a block at a time.
fn read_through(remote: &RemoteTables, object: &TableObject) -> Result<()> {
    let table = remote.open(object, Purpose::Scan)?;
    let (mut block, mut at) = ([0; RANGE_BYTES], 0);
    while at < object.bytes {
        match table.read_for(&mut block, at, Access::Scan)? {
            0 => return Err(Error::corruption("it ends too early").in_file(table.path())),
            read => at += read as u64,
        }
    }
    Ok(())
}

fn report((objects, way): (&Objects, &str), times: &Times, tell: &mut dyn FnMut(Figure)) {
    let figure = |what: &str, value, unit| {
        Figure::new("M1", format!("{}, {way}: {what}", objects.size()), value, unit)
    };
    let rate = |time: f64| objects.body.len() as f64 / 1e6 / time;
    tell(figure("gets of 4 KiB a second", 1.0 / times.get, Unit::Count));
    tell(figure("read through", rate(times.through), Unit::MegabytesPerSecond));
    tell(figure("put", rate(times.put), Unit::MegabytesPerSecond));
}

fn compare(objects: &Objects, ours: &Times, s3fs: &Times, tell: &mut dyn FnMut(Figure)) {
    for (what, ratio) in [
        ("gets", s3fs.get / ours.get),
        ("read through", s3fs.through / ours.through),
        ("put", s3fs.put / ours.put),
    ] {
        let figure = objects.figure(&format!("{what}, ours to S3FS"), ratio);
        tell(figure.wanted(Wanted::AtLeast(1.0)));
    }
}

#[cfg(test)]
mod tests {
    use siltstone_s3::Profile;

    use super::*;
    use crate::stage::small;

    fn measured(
        (name, profile): (&str, Profile),
        sizes: &[usize],
        is_mounted: bool,
    ) -> Vec<Figure> {
        let small = small(name);
        let plan = Plan { profile, ..small.clone() };
        let s3fs = is_mounted.then(|| plan.folder.join("mount"));
        let places = Places { s3fs, bucket: None };
        let mut figures = Vec::new();
        each_size(sizes, &plan, &places, &mut |figure| figures.push(figure)).unwrap();
        let left = std::fs::read_dir(&plan.folder).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<_> = left.filter(|path| !path.ends_with("mount")).collect();
        assert!(left.is_empty(), "{left:?}");
        figures
    }

    #[test]
    fn each_way_reads_what_it_has_put() {
        let figures = measured(("objects", Profile::ZERO), &[4 << 10, 40 << 20], true);
        for size in ["4 KiB", "40 MiB"] {
            for way in ["whole objects", "ranges", "S3FS"] {
                let begin = format!("{size}, {way}: ");
                let of: Vec<_> =
                    figures.iter().filter(|figure| figure.what.starts_with(&begin)).collect();
                assert_eq!(of.len(), 3, "{begin}{figures:?}");
                assert!(of.iter().all(|figure| figure.value > 0.0), "{of:?}");
            }
        }
        let compared = figures.iter().any(|figure| figure.what.contains("to S3FS"));
        assert!(!compared, "a store in memory and a mount are not compared");
    }

    #[test]
    fn what_is_not_mounted_is_told_and_ranges_of_large_objects_are_faster() {
        // Where a store takes time, whatever else this machine does takes less.
        let figures = measured(("unmounted", Profile::EXPRESS), &[8 << 20], false);
        assert_eq!(figures[0].what, "objects on S3FS: no mount given");
        assert!(figures[0].value.is_nan() && figures[0].is_met());
        let ratio = "8 MiB: gets, ranges to whole objects";
        let ratio = figures.iter().find(|figure| figure.what == ratio).unwrap();
        assert!(ratio.wanted.is_some() && ratio.value > 1.0, "{ratio:?}");
    }
}
