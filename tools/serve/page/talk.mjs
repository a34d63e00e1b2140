// The conversation on the screen: its messages, and the scrolling.
import { byId, element, icon } from './dom.mjs';
import { MessageView } from './message.mjs';

const AT_END = 60;  // pixels: nearer to the end than this, the page follows the answer

export class Talk {
  /** `actions`: what messages can do; see MessageView. */
  constructor(actions) {
    this.actions = actions;
    this.box = byId('messages');
    this.scroller = byId('scroller');
    this.views = [];
    this.following = true;
    this.frame = 0;
    this.restUntil = 0;
    byId('to-end').append(icon('down'));
    byId('to-end').addEventListener('click', () => this.toEnd());
    this.scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.following && this.toEnd()).observe(this.scroller);
  }

  show(conversation) {
    this.conversation = conversation;
    this.views = [];
    this.box.replaceChildren();
    for (const message of conversation?.messages ?? []) this.add(message);
    this.mark();
    this.toEnd();
  }

  /** True if the screen shows this conversation in its present state. */
  shows(conversation) {
    const messages = conversation?.messages ?? [];
    return this.conversation === conversation && messages.length === this.views.length && this.views.every((view, at) => view.message === messages[at]);
  }

  add(message) {
    const view = new MessageView(message, this.actions);
    this.views.push(view);
    this.box.append(view.element);
  }

  /** Shows messages that came or went at the end. */
  sync() {
    const { messages } = this.conversation;
    const same = this.views.findIndex((view, at) => view.message !== messages[at]);
    const keep = same < 0 ? this.views.length : same;
    for (const view of this.views.splice(keep)) view.element.remove();
    for (const message of messages.slice(keep)) this.add(message);
    this.mark();
  }

  /** Updates everything that depends on a message's position. */
  mark() {
    this.views.forEach((view, at) => view.setLast(at === this.views.length - 1));
    byId('left-out')?.remove();
    const first = this.conversation?.from ?? 0;
    if (first > 0) this.views[first]?.element.before(element('p', { class: 'left-out', id: 'left-out', text: 'What is above is no longer sent to the model.' }));
    byId('welcome').hidden = this.views.length > 0;
  }

  /**
   * Draws the growing last message in the next frame. Drawing takes at most a quarter of the time.
   */
  grow() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const begin = performance.now();
      if (begin < this.restUntil) return this.grow();
      const view = this.views.at(-1);
      if (view?.message.state !== 'streaming') return;
      view.update();
      if (this.following) this.toEnd();
      this.restUntil = begin + 4 * (performance.now() - begin);
    });
  }

  /** The last message is complete. */
  end() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.views.at(-1)?.update();
    this.mark();
    if (this.following) this.toEnd();
  }

  toEnd() {
    this.following = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    byId('to-end').hidden = true;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const gap = scrollHeight - scrollTop - clientHeight;
    // Growing content leaves a gap, too. Following ends only if the user scrolls up.
    if (gap < AT_END) this.following = true;
    else if (scrollTop < (this.lastTop ?? 0)) this.following = false;
    this.lastTop = scrollTop;
    byId('to-end').hidden = this.following || gap < AT_END;
  }
}
