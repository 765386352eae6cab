//! Who may do what at a broker, from a file: a line for each grant, of four words.
//!
//! ```text
//! # role    databases   by      who
//! worker    *           name    worker-1.fleet.example
//! client    orders,shop name    db.example
//! replica   orders      name    reader.example
//! admin     *           token   0f3a..
//! ```

use std::collections::BTreeSet;

use siltstone_remote::{Authority, DbId, Grant, Role, Scope};

use super::security::token;
use crate::errors::Failure;

/// Reads all lines. Errors name the line, and not what it holds: that may be a token.
pub(super) fn authority(text: &str) -> Result<Authority, Failure> {
    let mut authority = Authority::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        allow(&mut authority, line).map_err(|why| {
            Failure::usage(format!("line {number} of the grants: {why}"))
                .detail("a line has four words: role, databases, `name` or `token`, and which")
        })?;
    }
    Ok(authority)
}

fn allow(authority: &mut Authority, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [role, databases, by, who] = words[..] else {
        return Err(format!("it has {} words", words.len()));
    };
    let role = match role {
        "worker" => Role::Worker,
        "client" => Role::Client,
        "admin" => Role::Admin,
        "replica" => Role::Replica,
        _ => return Err("the role is none of worker, client, admin, replica".to_owned()),
    };
    let grant = Grant { role, scope: scope(databases)? };
    match by {
        "name" => authority.allow_name(who, grant),
        "token" => {
            let token = token(who).map_err(|_| "the token is none".to_owned())?;
            authority.allow_token(token, grant).map_err(|error| error.to_string())?;
        }
        _ => return Err("the third word is neither name nor token".to_owned()),
    }
    Ok(())
}

fn scope(databases: &str) -> Result<Scope, String> {
    if databases == "*" {
        return Ok(Scope::All);
    }
    let names = databases.split(',').map(DbId::new);
    let names = names.collect::<Result<BTreeSet<DbId>, _>>().map_err(|error| error.to_string())?;
    Ok(Scope::Only(names))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use siltstone_remote::machine::{Caller, Denied};

    use super::*;

    #[test]
    fn grants_are_read_line_by_line() {
        let token = "ab".repeat(32);
        let text = format!(
            "# who may do what\n\nworker * name w.example\nclient a,b name db.example\nadmin * token {token}\n\
             replica a name r.example\n"
        );
        let mut authority = authority(&text).unwrap();
        let mut admit = |name: &str, role| {
            let names = vec![name.to_owned()];
            let caller = Caller { names, serial: Some("1".to_owned()), ..Caller::default() };
            authority.admit(Duration::ZERO, &caller, role)
        };
        assert_eq!(admit("w.example", Role::Worker), Ok(Scope::All));
        assert_eq!(admit("w.example", Role::Client), Err(Denied::NotAllowed));
        assert!(matches!(admit("db.example", Role::Client), Ok(Scope::Only(of)) if of.len() == 2));
        assert!(matches!(admit("r.example", Role::Replica), Ok(Scope::Only(of)) if of.len() == 1));
        for other in [Role::Worker, Role::Client, Role::Admin] {
            assert_eq!(admit("r.example", other), Err(Denied::NotAllowed));
        }
        assert_eq!(admit("db.example", Role::Replica), Err(Denied::NotAllowed));
        assert_eq!(admit("x.example", Role::Worker), Err(Denied::Unknown));
    }

    #[test]
    fn bad_lines_are_named_and_not_shown() {
        for line in [
            "boss * name x",
            "worker .. name x",
            "worker * word x",
            "worker *",
            "admin * token canary",
        ] {
            let error = authority(&format!("# one\n{line}")).unwrap_err();
            let error = format!("{error:?}");
            assert!(error.contains("line 2") && !error.contains("canary"), "{error}");
        }
    }
}
