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

const [base, ...only] = process.argv.slice(2)
const all = [...suites, surrogate]
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
