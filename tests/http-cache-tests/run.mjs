// Runs the whole suite against a base URL and prints one JSON object: for each test its suite, its kind and what the
// suite's own rules (lib/display.mjs, which honours failed setups and dependencies) say of the result.
//
//   node run.mjs http://127.0.0.1:PORT [TEST-ID...]

import fetch from 'node-fetch'
import { runTests, getResults } from 'http-cache-tests/client/runner.mjs'
import { determineTestResult } from 'http-cache-tests/lib/display.mjs'
import suites from 'http-cache-tests/tests/index.mjs'
import surrogate from 'http-cache-tests/tests/surrogate-control.mjs'

// The symbols of display.mjs, by name.
const VERDICTS = {
  '-': 'untested',
  '✅': 'pass',
  '⛔️': 'fail',
  '⚠️': 'optional_fail',
  Y: 'yes',
  N: 'no',
  '🔹': 'setup_fail',
  '⁉️': 'harness_fail',
  '⚪️': 'dependency_fail',
  '↻': 'retry'
}

// The newest release on npm is older than the suite's repository. There these tests have been
// turned round, as RFC 9111 section 5.1 says that the first value of Age counts and that what is no
// number is ignored: what they called stale is fresh. Two became questions without a right answer.
const FRESH_BY_AGE = [
  'age-parse-nonnumeric',
  'age-parse-negative',
  'age-parse-float',
  'age-parse-prefix-twoline',
  'age-parse-dup-0',
  'age-parse-dup-0-twoline',
  'age-parse-dup-old'
]
const QUESTIONS = ['age-parse-parameter', 'age-parse-numeric-parameter']

const [base, ...only] = process.argv.slice(2)
const all = [...suites, surrogate]
for (const test of all.flatMap(suite => suite.tests)) {
  if (FRESH_BY_AGE.includes(test.id)) test.requests.at(-1).expected_type = 'cached'
  if (QUESTIONS.includes(test.id)) test.kind = 'check'
}
const chosen = only.length === 0
  ? all
  : all.map(suite => ({ ...suite, tests: suite.tests.filter(test => only.includes(test.id)) }))

await runTests(chosen, fetch, false, base)

const results = getResults()
const tests = {}
for (const suite of chosen) {
  for (const test of suite.tests) {
    if (test.browser_only === true) continue
    const result = results[test.id]
    tests[test.id] = {
      suite: suite.id,
      name: test.name,
      kind: test.kind ?? 'required',
      verdict: VERDICTS[determineTestResult(all, test.id, results, only.length === 0)[2]],
      detail: Array.isArray(result) ? result.join(': ') : null
    }
  }
}
console.log(JSON.stringify(tests, null, 1))
