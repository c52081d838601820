/** Lines that no test can observe, at most 20; `*` stands for every route. */
export const EXCEPTIONS: readonly { line: string; because: string }[] = [
  { line: 'client-versions.get 500 internal_error', because: 'it answers a constant: nothing in it can fail' },
  { line: 'openapi.get 500 internal_error', because: 'it answers what the contract alone decides: nothing in it can fail' },
  {
    line: 'cell.exec.attach 4409 conflict/operation_interrupted',
    because: 'only a signal whose machine breaks off between taking it and answering is told so, which no test can time',
  },
]
