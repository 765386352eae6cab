//! Who is let in, and above all who is not.

use super::*;

const NOW: Duration = Duration::from_secs(1_000);

fn db(name: &str) -> DbId {
    DbId::new(name).unwrap()
}

fn token(byte: u8) -> Secret {
    Secret::new(&[byte; 32]).unwrap()
}

fn authority() -> Authority {
    let mut authority = Authority::new();
    let grant = |role, scope| Grant { role, scope };
    authority.allow_name("one.workers", grant(Role::Worker, Scope::one(db("a"))));
    authority.allow_name("one.workers", grant(Role::Worker, Scope::one(db("b"))));
    authority.allow_name("a.clients", grant(Role::Client, Scope::one(db("a"))));
    authority.allow_name("a.replicas", grant(Role::Replica, Scope::one(db("a"))));
    authority.allow_token(token(1), grant(Role::Client, Scope::one(db("a")))).unwrap();
    authority.allow_token(token(2), grant(Role::Client, Scope::one(db("b")))).unwrap();
    authority
}

fn named(name: &str) -> Caller {
    let names = vec![name.to_owned()];
    Caller { address: "10.0.0.1".into(), names, serial: Some("0a".into()), token: None }
}

fn bearing(bytes: &[u8]) -> Caller {
    let token = Some(Secret::new(bytes).unwrap());
    Caller { address: "10.0.0.1".into(), names: Vec::new(), serial: None, token }
}

#[test]
fn names_and_tokens_stand_for_their_databases_only() {
    let mut authority = authority();
    let scope = authority.admit(NOW, &named("one.workers"), Role::Worker).unwrap();
    assert!(scope.holds(&db("a")) && scope.holds(&db("b")) && !scope.holds(&db("c")));
    let scope = authority.admit(NOW, &bearing(&[2; 32]), Role::Client).unwrap();
    assert!(scope.holds(&db("b")) && !scope.holds(&db("a")), "another database's token");
}

#[test]
fn nobody_else_is_let_in() {
    let mut authority = authority();
    let mut refused = |caller: &Caller, role, why: Denied| {
        assert_eq!(authority.admit(NOW, caller, role), Err(why), "{caller:?} as {role:?}");
    };
    refused(&named("two.workers"), Role::Worker, Denied::Unknown);
    refused(&named("ONE.WORKERS"), Role::Worker, Denied::Unknown);
    refused(&named("one.workers."), Role::Worker, Denied::Unknown);
    refused(&named(""), Role::Worker, Denied::Unknown);
    refused(&named("a.clients"), Role::Worker, Denied::NotAllowed);
    refused(&named("a.clients"), Role::Admin, Denied::NotAllowed);
    refused(&Caller::default(), Role::Client, Denied::Unknown);
    refused(&bearing(b""), Role::Client, Denied::Unknown);
    refused(&bearing(&[1; 31]), Role::Client, Denied::Unknown);
    refused(&bearing(&[1; 33]), Role::Client, Denied::Unknown);
    refused(&bearing(&[3; 32]), Role::Client, Denied::Unknown);
    refused(&bearing(&[1; 32]), Role::Worker, Denied::NotAllowed);
    // A name without a certificate behind it is hearsay.
    let hearsay = Caller { serial: None, ..named("one.workers") };
    refused(&hearsay, Role::Worker, Denied::Unknown);
}

#[test]
fn a_replica_is_nothing_else_and_nobody_else_is_one() {
    let mut authority = authority();
    let scope = authority.admit(NOW, &named("a.replicas"), Role::Replica).unwrap();
    assert!(scope.holds(&db("a")) && !scope.holds(&db("b")));
    for role in [Role::Worker, Role::Client, Role::Admin] {
        let denied = authority.admit(NOW, &named("a.replicas"), role);
        assert_eq!(denied, Err(Denied::NotAllowed), "{role:?}");
    }
    for who in [named("one.workers"), named("a.clients"), bearing(&[1; 32])] {
        assert_eq!(authority.admit(NOW, &who, Role::Replica), Err(Denied::NotAllowed), "{who:?}");
    }
}

#[test]
fn a_wrong_token_is_not_made_good_by_a_certificate() {
    let caller = Caller { token: bearing(&[9; 32]).token, ..named("a.clients") };
    assert_eq!(authority().admit(NOW, &caller, Role::Client), Err(Denied::Unknown));
}

#[test]
fn revoked_certificates_and_their_tokens_stand_for_nothing() {
    let mut authority = authority();
    authority.revoke("0a");
    assert_eq!(authority.admit(NOW, &named("one.workers"), Role::Worker), Err(Denied::Unknown));
    let caller = Caller { token: bearing(&[1; 32]).token, ..named("a.clients") };
    assert_eq!(authority.admit(NOW, &caller, Role::Client), Err(Denied::Unknown));
}

#[test]
fn who_guesses_waits_and_others_do_not() {
    let mut authority = authority();
    for guess in 0..GUESSES_MAX {
        let caller = bearing(&[100 + guess as u8; 32]);
        assert_eq!(authority.admit(NOW, &caller, Role::Client), Err(Denied::Unknown));
    }
    let right = bearing(&[1; 32]);
    assert_eq!(authority.admit(NOW, &right, Role::Client), Err(Denied::TooManyGuesses));
    let elsewhere = Caller { address: "10.0.0.2".into(), ..right.clone() };
    assert!(authority.admit(NOW, &elsewhere, Role::Client).is_ok());
    assert!(authority.admit(NOW + GUESSING, &right, Role::Client).is_ok());
}

#[test]
fn many_guessers_take_no_memory_without_bound() {
    let mut authority = authority();
    for number in 0..2 * GUESSERS_MAX {
        let caller = Caller { address: number.to_string(), ..bearing(&[7; 32]) };
        let _ = authority.admit(NOW + Duration::from_millis(number as u64), &caller, Role::Client);
    }
    assert_eq!(authority.guesses.len(), GUESSERS_MAX);
}

#[test]
fn short_tokens_are_not_taken() {
    let grant = Grant { role: Role::Admin, scope: Scope::All };
    let short = Secret::new(&[1; 31]).unwrap();
    assert!(Authority::new().allow_token(short, grant.clone()).is_err());
    assert!(Authority::new().allow_token(Secret::new(&[1; 513]).unwrap(), grant).is_err());
}

#[test]
fn no_secret_is_printed() {
    let mut authority = Authority::new();
    let secret = Secret::new(b"canary-canary-canary-canary-canary").unwrap();
    authority.allow_token(secret.clone(), Grant { role: Role::Admin, scope: Scope::All }).unwrap();
    let caller = Caller { token: Some(secret), ..Caller::default() };
    assert!(!format!("{authority:?} {caller:?}").contains("canary"));
}
