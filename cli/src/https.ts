// Apart, so that it is read where it is wanted.
export { request } from 'node:https'
