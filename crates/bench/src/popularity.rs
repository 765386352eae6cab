//! Which records a YCSB workload asks for: Zipf's law over scattered records, the latest ones first,
//! or all alike.

use std::str::FromStr;

use crate::random::SplitMix;

/// The skew of YCSB: the tenth part of the records takes about four fifths of the requests.
const THETA: f64 = 0.99;

/// A law of popularity, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A few records get most requests, and lie anywhere.
    Zipfian,
    /// The last ones get most.
    Latest,
    /// All are alike.
    Uniform,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 3] = [Law::Zipfian, Law::Latest, Law::Uniform];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Law::Zipfian => "zipfian",
            Law::Latest => "latest",
            Law::Uniform => "uniform",
        }
    }
}

impl FromStr for Law {
    type Err = ();

    fn from_str(name: &str) -> Result<Law, ()> {
        Law::ALL.into_iter().find(|law| law.name() == name).ok_or(())
    }
}

/// A law over a number of records. Made once per benchmark, which takes time in proportion to the
/// records; drawing from it takes none to speak of.
pub(crate) struct Popularity {
    law: Law,
    zipf: Zipf,
}

impl Popularity {
    /// `loaded` is how many records there are before the benchmark inserts more.
    pub(crate) fn new(law: Law, loaded: u64) -> Self {
        // The uniform law needs none of the sums that Zipf's takes.
        let ranks = if law == Law::Uniform { 1 } else { loaded.max(1) };
        Popularity { law, zipf: Zipf::new(ranks) }
    }

    /// A record below `present`, which is not 0.
    #[inline]
    pub(crate) fn pick(&self, random: &mut SplitMix, present: u64) -> u64 {
        match self.law {
            Law::Uniform => random.below(present),
            // The popular ones are scattered. They stay the same when records are added.
            Law::Zipfian => scatter(self.zipf.rank(random.unit())) % self.zipf.ranks.min(present),
            Law::Latest => present - 1 - self.zipf.rank(random.unit()) % present,
        }
    }
}

/// FNV-1a of the eight bytes of a number: YCSB's way to scatter ordinals and ranks.
#[inline]
pub(crate) fn scatter(number: u64) -> u64 {
    number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Zipf's law, drawn from by the method of Gray and others ("Quickly generating billion-record
/// synthetic databases", 1994), as YCSB does.
struct Zipf {
    ranks: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(ranks: u64) -> Self {
        let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).sum();
        let zeta_of_two = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_two / zeta);
        Zipf { ranks, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The rank, from 0, that a number in [0, 1) stands for.
    #[inline]
    fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.ranks == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let share = (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        ((self.ranks as f64 * share) as u64).min(self.ranks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1000;
    const DRAWN: u32 = 200_000;

    /// How often each record comes, from the most frequent on, with the records.
    fn drawn(law: Law, present: u64) -> Vec<(u32, u64)> {
        let popularity = Popularity::new(law, RECORDS);
        let mut random = SplitMix::new(7);
        let mut counts: Vec<(u32, u64)> = (0..present).map(|record| (0, record)).collect();
        for _ in 0..DRAWN {
            counts[popularity.pick(&mut random, present) as usize].0 += 1;
        }
        counts.sort_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn ranks_follow_the_law() {
        let zipf = Zipf::new(RECORDS);
        let mut random = SplitMix::new(3);
        let mut counts = vec![0u32; RECORDS as usize];
        for _ in 0..DRAWN {
            counts[zipf.rank(random.unit()) as usize] += 1;
        }
        // The law says what share each rank has. The method is exact for the first two and close
        // for the others.
        for (rank, slack) in [(0, 0.05), (1, 0.05), (9, 0.25), (99, 0.25)] {
            let expected = f64::from(DRAWN) * ((rank + 1) as f64).powf(-THETA) / zipf.zeta;
            let off = (f64::from(counts[rank]) - expected).abs() / expected;
            assert!(off < slack, "rank {rank}: {} for {expected}", counts[rank]);
        }
        let top: u32 = counts[..100].iter().sum();
        let share = f64::from(top) / f64::from(DRAWN);
        assert!((0.66..0.76).contains(&share), "the first tenth takes {share}");
        assert_eq!(zipf.rank(0.0), 0);
        assert!(zipf.rank(1.0 - f64::EPSILON) < RECORDS);
    }

    #[test]
    fn zipfian_scatters_the_popular_records() {
        let counts = drawn(Law::Zipfian, RECORDS);
        assert!(counts[0].0 > 20 * DRAWN / RECORDS as u32, "{:?}", counts[0]);
        // Ranks that meet on one record leave others out; ten in a row would be no scatter.
        let top: Vec<u64> = counts[..10].iter().map(|&(_, record)| record).collect();
        assert!(top.iter().max().unwrap() - top.iter().min().unwrap() > 300, "{top:?}");
        // New records change nothing for the old ones.
        assert_eq!(drawn(Law::Zipfian, RECORDS + 50)[..10], counts[..10]);
    }

    #[test]
    fn the_latest_are_asked_for_most() {
        let counts = drawn(Law::Latest, RECORDS + 50);
        let top: Vec<u64> = counts[..2].iter().map(|&(_, record)| record).collect();
        assert_eq!(top, [RECORDS + 49, RECORDS + 48]);
        // Also when there are fewer than were promised.
        assert_eq!(drawn(Law::Latest, 3).iter().map(|&(count, _)| count).sum::<u32>(), DRAWN);
    }

    #[test]
    fn uniform_prefers_none() {
        let counts = drawn(Law::Uniform, RECORDS);
        let mean = f64::from(DRAWN) / RECORDS as f64;
        // Chi-squared with 999 degrees of freedom stays below 1143 in 99.9 % of all runs.
        let chi: f64 = counts.iter().map(|&(n, _)| (f64::from(n) - mean).powi(2) / mean).sum();
        assert!(chi < 1143.0, "{chi}");
    }

    #[test]
    fn a_single_record_is_always_it() {
        for law in [Law::Zipfian, Law::Latest, Law::Uniform] {
            let popularity = Popularity::new(law, 1);
            assert_eq!(popularity.pick(&mut SplitMix::new(1), 1), 0, "{law:?}");
        }
    }
}
