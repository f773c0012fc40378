// Package pgtest gives tests real PostgreSQL databases: one private server per
// test binary, a fresh database per test, and whole servers or a PgBouncer for
// tests that stop them. A missing program fails the test with what to install;
// nothing is skipped.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// With TEST_DATABASE_URL, a superuser's connection string, the databases are
// made on that server and no private one is started for them.
package pgtest
