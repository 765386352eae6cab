//! What the command line asks for.

use siltstone_cloud_lab::{Plan, Profile};

pub(crate) const USAGE: &str = "\
usage: siltstone-beside-slatedb [OPTION...]
  --profile NAME       how slow the store is: zero, s3std or express [s3std]
  --records COUNT      entries that are loaded and read [200000]
  --value-bytes BYTES  of a value, none of which can be compressed [1000]
  --puts COUNT         durable puts of one writer; 16 writers make twice as many [300]
  --runs COUNT         each figure is the middle one of so many [1]
  --seed NUMBER        where random numbers begin [42]
  --folder FOLDER      where our log and our cache lie [the folder for temporary files]
  --json               for programs";

/// What is measured, and how it is told.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) plan: Plan,
    pub(crate) puts: u64,
    pub(crate) json: bool,
}

impl Request {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let plan = Plan {
            profile: Profile::S3_STANDARD,
            records: 200_000,
            value_bytes: 1000,
            runs: 1,
            folder: std::env::temp_dir(),
            seed: 42,
        };
        let mut request = Request { plan, puts: 300, json: false };
        let mut arguments = arguments;
        while let Some(option) = arguments.next() {
            if option == "--json" {
                request.json = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{option} wants a value"));
            request.set(&option, value?)?;
        }
        Ok(request)
    }

    fn set(&mut self, option: &str, value: String) -> Result<(), String> {
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{option} wants a number from 1 on")),
        };
        let plan = &mut self.plan;
        match option {
            "--profile" => {
                let known = Profile::named(&value);
                plan.profile = known.ok_or_else(|| format!("{value} is no profile"))?;
            }
            "--records" => plan.records = number()?,
            "--value-bytes" => {
                plan.value_bytes = usize::try_from(number()?).map_err(|_| "a value is too long")?;
            }
            "--puts" => self.puts = number()?,
            "--runs" => plan.runs = number()?,
            "--seed" => plan.seed = number()?,
            "--folder" => plan.folder = value.into(),
            _ => return Err(format!("{option} is no option")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_set_and_wrong_ones_told() {
        let request = parse("--profile zero --records 7 --json --puts 9 --value-bytes 5").unwrap();
        assert_eq!((request.plan.profile.name, request.plan.records), ("zero", 7));
        assert_eq!((request.plan.value_bytes, request.puts, request.json), (5, 9, true));
        assert_eq!(parse("").unwrap().plan.profile.name, "s3std");
        for wrong in ["--records", "--records 0", "--profile slow", "--speed 7", "x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
