//! Random numbers by seed: jitter, marks, and what goes wrong on purpose. The same seed gives the same numbers, on every
//! machine.

/// SplitMix64: one addition and two multiplications a number, and any seed is a good one.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A stream of its own for `ordinal`: what is drawn there changes nothing elsewhere.
    pub(crate) fn stream(seed: u64, ordinal: u64) -> Self {
        let mut dice = Dice::new(seed ^ ordinal.wrapping_mul(STEP));
        Dice::new(dice.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn share(&mut self) -> f64 {
        // 53 bits are what a double holds.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From a normal distribution around 0 with a deviation of 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.share(), self.share());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_reference() {
        let mut dice = Dice::new(1_234_567);
        let numbers = [dice.next(), dice.next(), dice.next()];
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, known);
    }

    #[test]
    fn shares_are_even_and_normal_numbers_normal() {
        let mut dice = Dice::new(7);
        let mean = (0..10_000).map(|_| dice.share()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let normal: Vec<f64> = (0..10_000).map(|_| dice.normal()).collect();
        let within = normal.iter().filter(|x| x.abs() < 1.0).count();
        assert!((6_600..7_050).contains(&within), "{within} of 10000 within one deviation");
    }
}
