// The dashboard's script. Every page works without it: it keeps pages up to date and adds keys.
import { keepLive } from './live.js';
import { confirmForms, copyButtons, localTimes, showSection, sliders } from './page.js';
import { keys } from './keys.js';
import { palette } from './palette.js';

const main = document.querySelector('main');
if (main) {
  localTimes(main);
  showSection(main);
  keepLive(main, () => localTimes(main));
  confirmForms();
  copyButtons();
  sliders();
  keys(main, palette());
}
