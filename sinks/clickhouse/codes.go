package clickhouse

// code is a number of ClickHouse's ErrorCodes.
type code int32

// The codes that are more than an outage. Newer servers send their
// names along, older ones do not.
const (
	codeUnknownTable    code = 60
	codeUnknownDatabase code = 81
	codeIllegalFinal    code = 181 // the engine has no FINAL

	codeTooManyParts   code = 252
	codeTooManyQueries code = 202
	codeMemoryLimit    code = 241
)

// overloads are refusals of a server that has too much to do: fewer and larger
// inserts help, smaller ones make it worse.
func overloads() map[code]string {
	return map[code]string{
		codeTooManyParts:   "TOO_MANY_PARTS",
		codeTooManyQueries: "TOO_MANY_SIMULTANEOUS_QUERIES",
		codeMemoryLimit:    "MEMORY_LIMIT_EXCEEDED",
		745:                "SERVER_OVERLOADED",
	}
}

// matters are refusals that no waiting mends, with what to do. Their texts name
// tables, columns, accounts and settings, and no values.
func matters() map[code]string {
	const (
		table   = "make the table again (`exporter check --print-ddl` prints the default one) or correct …_CLICKHOUSE_TABLE"
		columns = "compare the table's columns with those that `exporter check` lists, and add what is missing"
		account = "correct the account in …_CLICKHOUSE_DSN"
		grants  = "grant the account INSERT and SELECT on the table"
		setting = "correct the settings in …_CLICKHOUSE_DSN, or the account's profile"
		kind    = "name a table that can be inserted into"
	)
	return map[code]string{
		codeUnknownTable: table, 218: table, // TABLE_IS_DROPPED
		codeUnknownDatabase: "make the database, or correct it in …_CLICKHOUSE_DSN or …_CLICKHOUSE_TABLE",
		16:                  columns, // NO_SUCH_COLUMN_IN_TABLE
		47:                  columns, // UNKNOWN_IDENTIFIER
		44:                  columns, // ILLEGAL_COLUMN
		20:                  columns, // NUMBER_OF_COLUMNS_DOESNT_MATCH
		48:                  kind,    // NOT_IMPLEMENTED: such as an insert into a view
		192:                 account, // UNKNOWN_USER
		193:                 account, // WRONG_PASSWORD
		194:                 account, // REQUIRED_PASSWORD
		195:                 account, // IP_ADDRESS_NOT_ALLOWED
		516:                 account, // AUTHENTICATION_FAILED
		164:                 grants,  // READONLY
		291:                 grants,  // DATABASE_ACCESS_DENIED
		497:                 grants,  // ACCESS_DENIED
		115:                 setting, // UNKNOWN_SETTING
		452:                 setting, // SETTING_CONSTRAINT_VIOLATION
	}
}

// refusals are about what is in the rows. Their texts quote it.
func refusals() map[code]string {
	return map[code]string{
		6:   "CANNOT_PARSE_TEXT",
		26:  "CANNOT_PARSE_QUOTED_STRING",
		27:  "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
		38:  "CANNOT_PARSE_DATE",
		41:  "CANNOT_PARSE_DATETIME",
		69:  "ARGUMENT_OUT_OF_BOUND",
		70:  "CANNOT_CONVERT_TYPE",
		72:  "CANNOT_PARSE_NUMBER",
		117: "INCORRECT_DATA",
		130: "CANNOT_READ_ARRAY_FROM_TEXT",
		131: "TOO_LARGE_STRING_SIZE",
		321: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
		349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
		376: "CANNOT_PARSE_UUID",
		395: "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO",
		407: "DECIMAL_OVERFLOW",
		467: "CANNOT_PARSE_BOOL",
		469: "VIOLATED_CONSTRAINT",
		675: "CANNOT_PARSE_IPV4",
		676: "CANNOT_PARSE_IPV6",
		691: "UNKNOWN_ELEMENT_OF_ENUM",
	}
}
