// node:https is loaded only for https URLs.
export { request } from 'node:https'
